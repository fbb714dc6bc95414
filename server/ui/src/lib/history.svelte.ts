import { get, path } from './api'
import { concerns } from './live.svelte'
import { Resource } from './resource.svelte'
import type { Entry, EntryList, Execution } from './types'

const page = 1000

/** The journal of a run in memory. It grows as the run does. Make it while a component is made. */
export class Journal {
  entries = $state.raw<Entry[]>([])
  readonly reading: Resource<void>
  #of = ''

  constructor(run: () => Execution | undefined) {
    const id = () => run()?.run_id ?? ''
    const lacks = () => this.entries.length < (run()?.entries ?? 0)
    this.reading = new Resource(
      (signal) => this.#read(id(), signal),
      id,
      (of) => concerns(of, id()) && lacks(),
    )
    // The last entry comes with the end, after which nothing else is told.
    $effect(() => {
      if (lacks() && !this.reading.loading) void this.reading.load()
    })
  }

  /** Reads what is new. What depends on the entries costs as much as there are, so they are told
   * only when they have doubled, and at the end. */
  async #read(run: string, signal: AbortSignal) {
    if (run !== this.#of) this.entries = []
    this.#of = run
    const all = [...this.entries]
    while (run) {
      const from = (all.at(-1)?.seq ?? 0) + 1
      const some = await get<EntryList>(path`executions/${run}/history` + `?from=${from}&limit=${page}`, signal)
      all.push(...some.items)
      if (all.length > this.entries.length && (!some.next || all.length >= 2 * this.entries.length)) this.entries = [...all]
      if (!some.next) return
    }
  }
}
