import { SvelteMap } from 'svelte/reactivity'
import type { Run } from './types'

/** The runs of a list that the reader has chosen: some by their rows, or all that meet the
 * conditions of the list. */
export class Ticks {
  all = $state(false)
  #chosen = new SvelteMap<string, Run>()

  constructor(private rows: () => Run[]) {}

  /** The chosen runs as the list has them now. */
  get runs(): Run[] {
    const now = new Map(this.rows().map((r) => [r.run_id, r]))
    return [...this.#chosen.values()].map((r) => now.get(r.run_id) ?? r)
  }

  get any() {
    return this.all || this.#chosen.size > 0
  }

  get allShown() {
    return this.all || this.rows().every((r) => this.#chosen.has(r.run_id))
  }

  has(run: Run) {
    return this.all || this.#chosen.has(run.run_id)
  }

  set(run: Run, on: boolean) {
    if (this.all) this.show(true)
    if (on) this.#chosen.set(run.run_id, run)
    else this.#chosen.delete(run.run_id)
  }

  /** Chooses the runs that are shown, or none. */
  show(on: boolean) {
    this.all = false
    this.#chosen.clear()
    if (on) for (const r of this.rows()) this.#chosen.set(r.run_id, r)
  }
}
