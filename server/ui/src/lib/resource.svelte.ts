import { untrack } from 'svelte'
import { refusalOf, type Refusal } from './api'
import { atOnce, listen } from './live.svelte'

/** What a part of the page shows of the server: read when its key changes, and when it may have
 * changed there. Call it while a component is made. */
export class Resource<T> {
  value = $state.raw<T>()
  problem = $state.raw<Refusal>()
  loading = $state(true)
  #busy = false
  #again = false
  #abort: AbortController | undefined
  #last = 0
  #timer: ReturnType<typeof setTimeout> | undefined

  constructor(
    private read: (signal: AbortSignal) => Promise<T>,
    key: () => unknown = () => '',
    wanted: (of: Set<string>) => boolean = () => true,
    private every = 0, // milliseconds between two readings, unless the reader waits
  ) {
    $effect(() => {
      key()
      untrack(() => {
        this.loading = true
        this.#abort?.abort()
        this.#busy = false
        void this.load()
      })
    })
    $effect(() => {
      const unlisten = listen((of) => {
        if (wanted(of)) this.#soon(of.has(atOnce) ? 0 : this.every)
      })
      return () => {
        unlisten()
        clearTimeout(this.#timer)
        this.#abort?.abort()
      }
    })
  }

  #soon(after: number) {
    const wait = this.#last + after - Date.now()
    clearTimeout(this.#timer)
    if (wait <= 0) void this.load()
    else this.#timer = setTimeout(() => void this.load(), wait)
  }

  /** Reads again. While one reading goes on, others become one. */
  async load() {
    if (this.#busy) {
      this.#again = true
      return
    }
    this.#busy = true
    this.#again = false
    this.#last = Date.now()
    const abort = (this.#abort = new AbortController())
    try {
      const value = await this.read(abort.signal)
      if (abort.signal.aborted) return
      this.value = value
      this.problem = undefined
    } catch (e) {
      if (abort.signal.aborted) return
      const problem = refusalOf(e)
      // A bar says that the server is lost: what is shown stays.
      if (problem.code !== 'unreachable' || this.value === undefined) this.problem = problem
    }
    this.loading = false
    this.#busy = false
    if (this.#again) void this.load()
  }
}
