import { api, path } from './api'
import type { Chunk } from './types'

/** What one attempt of a step has put into a stream. */
export interface Part {
  part: number
  attempt: number
  chunks: Chunk[]
  isReplaced: boolean // the step is tried again: the part does not count any more
}

/** A stream of a run as it comes. The browser asks again after the last chunk that it has got. */
export class Stream {
  parts = $state.raw<Part[]>([])
  ended = $state(false)
  broken = $state('')
  #source: EventSource
  #waiting: Chunk[] = []
  #timer: ReturnType<typeof setTimeout> | undefined

  constructor(run: string, name: string) {
    const source = (this.#source = new EventSource(api(path`executions/${run}/streams/${name}/events`)))
    for (const kind of ['chunk', 'void']) {
      source.addEventListener(kind, (e: MessageEvent<string>) => this.#take(JSON.parse(e.data) as Chunk))
    }
    source.addEventListener('end', () => {
      this.ended = true
      source.close()
    })
    source.addEventListener('problem', (e: MessageEvent<string>) => {
      this.broken = (JSON.parse(e.data) as { detail: string }).detail
      source.close()
    })
    source.onerror = () => {
      if (source.readyState === EventSource.CLOSED) this.broken = 'The server does not give the stream.'
    }
  }

  /** Takes a chunk. Many that come at once are shown at once. */
  #take(c: Chunk) {
    this.#waiting.push(c)
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined
      const some = this.#waiting
      this.#waiting = []
      this.parts = added(this.parts, some)
    }, 50)
  }

  close() {
    clearTimeout(this.#timer)
    this.#source.close()
  }
}

function added(parts: Part[], chunks: Chunk[]): Part[] {
  const out = [...parts]
  const own = new Set<Part>() // copies, which may change
  for (const c of chunks) {
    let i = out.findIndex((p) => p.part === c.part)
    if (i < 0) i = out.push({ part: c.part, attempt: c.attempt ?? 1, chunks: [], isReplaced: false }) - 1
    const p = own.has(out[i]!) ? out[i]! : (out[i] = { ...out[i]!, chunks: [...out[i]!.chunks] })
    own.add(p)
    if (c.void) p.isReplaced = true
    else p.chunks.push(c)
  }
  return out
}
