import { lost, reached } from './link.svelte'
import { heard } from './now.svelte'
import type { Problem } from './types'

/** The address under which the server is mounted; the server says it in <base>. */
export const root = new URL('.', document.baseURI)

export const api = (path: string) => new URL('api/orchestration/' + path, root).href

/** An answer of the API that is no success, or no answer at all. */
export class Refusal extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    readonly detail: string,
    readonly hint = '',
    readonly defects: string[] = [],
  ) {
    super(detail)
  }
}

export function refusalOf(e: unknown): Refusal {
  if (e instanceof Refusal) return e
  return new Refusal(0, 'page', e instanceof Error ? e.message : String(e))
}

/** Whether somebody has done something with the page since the last request. A request without that
 * keeps no session alive: an open page reads by itself for ever. */
let attended = true
for (const event of ['pointerdown', 'keydown', 'wheel', 'pointermove']) {
  addEventListener(event, () => (attended = true), { capture: true, passive: true })
}

/** What the page does when the server wants to know who asks. */
export const whenUnknown = { ask: () => {} }

/** Sends a request. One that is open shows a credential of its own, and asks for no login. */
export async function request<T>(
  method: string,
  path: string,
  body?: unknown,
  options: { signal?: AbortSignal; key?: string; open?: boolean } = {},
): Promise<T> {
  const headers: Record<string, string> = {}
  if (body !== undefined) headers['Content-Type'] = 'application/json'
  if (!attended) headers['Perdure-Unattended'] = '1'
  attended = false
  if (options.key) headers['Idempotency-Key'] = options.key
  let answer: Response
  try {
    answer = await fetch(api(path), {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      signal: options.signal,
    })
  } catch (e) {
    if (options.signal?.aborted) throw e
    lost()
    throw new Refusal(0, 'unreachable', 'The server does not answer.', method === 'GET' ? 'Is it running? The page tries again by itself.' : 'It may have done it or not. When it runs again, look before you try again.')
  }
  reached()
  heard(answer.headers.get('Date'))
  if (answer.ok) return answer.status === 204 ? (undefined as T) : ((await answer.json()) as T)
  const refusal = await read(answer)
  if (answer.status === 401 && !options.open) whenUnknown.ask()
  throw refusal
}

async function read(answer: Response): Promise<Refusal> {
  try {
    const p = (await answer.json()) as Problem
    const defects = (p.errors ?? []).map((d) => `${d.at}: ${d.message}`)
    return new Refusal(answer.status, p.code, p.detail, p.hint, defects)
  } catch {
    return new Refusal(answer.status, 'unavailable', `The server answers with status ${answer.status}.`)
  }
}

/** Makes keys by which the server knows a request that is sent again: another request has another
 * key. */
export function keyFor() {
  let key = ''
  let of = ''
  return (...request: unknown[]) => {
    const text = JSON.stringify(request)
    if (text !== of) key = Array.from(crypto.getRandomValues(new Uint32Array(3)), (n) => n.toString(36)).join('')
    of = text
    return key
  }
}

export const get = <T>(path: string, signal?: AbortSignal) => request<T>('GET', path, undefined, { signal })

/** A path with its parts escaped: path`executions/${id}/why`. */
export function path(words: TemplateStringsArray, ...values: string[]): string {
  return words.reduce((all, word, i) => all + encodeURIComponent(values[i - 1] ?? '') + word)
}
