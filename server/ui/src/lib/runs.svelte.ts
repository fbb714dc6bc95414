import { get, request } from './api'
import { distinct } from './distinct'
import type { Outcome, Run, RunList, StandingItemList } from './types'
import { look } from './status'
import { Ticks } from './ticks.svelte'

/** How many runs a page of the list has. */
const page = 50

const lists = new Map<string, RunsList>()

/** The list of a place in the browser's history. It is kept, so Back shows the rows that were read. */
export function listOf(entry: string, query: string): RunsList {
  const key = entry + ' ' + query
  const list = lists.get(key) ?? new RunsList(query)
  lists.delete(key)
  lists.set(key, list)
  if (lists.size > 20) lists.delete(lists.keys().next().value!)
  return list
}

/** A list of runs that stays where it is: what changes is changed in its place, and new runs wait
 * until the reader wants them. */
export class RunsList {
  rows = $state.raw<Run[]>([])
  fresh = $state.raw<Run[]>([])
  next = $state('')
  begun = $state(false)
  readonly ticks = new Ticks(() => this.rows)

  constructor(readonly query: string) {}

  /** Reads the newest page, and how the other rows stand. */
  async read(signal: AbortSignal) {
    const first = await this.#page('', signal)
    if (!this.begun || this.rows.length === 0) {
      this.rows = first.items
      this.next = first.next ?? ''
      this.begun = true
      return
    }
    const now = new Map<string, Run>(first.items.map((r) => [r.run_id, r]))
    const left = this.rows.filter((r) => !now.has(r.run_id) && look(r.status).open)
    for (const r of await this.#standing(left, signal)) now.set(r.run_id, r)
    const shown = new Set(this.rows.map((r) => r.run_id))
    const oldest = this.next ? this.rows.at(-1)!.created : ''
    this.rows = this.rows.map((r) => now.get(r.run_id) ?? r)
    this.fresh = first.items.filter((r) => !shown.has(r.run_id) && (!oldest || byTime(r.created, oldest) >= 0))
  }

  /** Shows the new runs. Where a page has no room for them all, the list begins anew. */
  show() {
    if (this.fresh.length >= page) {
      this.rows = []
      return
    }
    this.rows = runsOf([...this.fresh, ...this.rows]).sort((a, b) => byTime(b.created, a.created))
    this.fresh = []
  }

  async more() {
    const older = await this.#page(this.next)
    this.rows = runsOf([...this.rows, ...older.items])
    this.next = older.next ?? ''
  }

  #page(cursor: string, signal?: AbortSignal) {
    const query = new URLSearchParams(this.query)
    query.set('limit', String(page))
    if (cursor) query.set('cursor', cursor)
    return get<RunList>('executions?' + query, signal)
  }

  async #standing(rows: Run[], signal: AbortSignal): Promise<Run[]> {
    if (rows.length === 0) return []
    const ids = rows.slice(0, 1000).map((r) => r.run_id)
    const all = await request<StandingItemList>('POST', 'statuses', { ids }, { signal })
    return all.items.flatMap((s, i) => (s.found ? [{ ...rows[i]!, ...withoutError(s.run ?? {}) }] : []))
  }
}

const runsOf = (all: Run[]) => distinct(all, (r) => r.run_id)

const byTime = (a: string, b: string) => Date.parse(a) - Date.parse(b)

function withoutError(o: Partial<Outcome>): Partial<Run> {
  const { error, output: _, ...rest } = o
  return { ...rest, error: error?.message }
}
