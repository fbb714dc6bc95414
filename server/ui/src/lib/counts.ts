import { get } from './api'
import { Resource } from './resource.svelte'
import type { StatusCount, StatusCountList } from './types'

/** How many runs have each status, of those that the parameters of a query select. Call it while a
 * component is made. */
export const countsOf = (query: () => string) =>
  new Resource(
    async (signal) => {
      const all = await get<StatusCountList>('executions/counts?' + query(), signal)
      return new Map<string, StatusCount>(all.items.map((c) => [c.status, c]))
    },
    query,
    () => true,
    5000,
  )

/** How many runs of a kind are counted. The server has looked at one more to know that it is cut off. */
const counted = 10_000

/** A number of runs in words: 10,000+ if there may be more. */
export function figure(...counts: (StatusCount | undefined)[]): string {
  const runs = counts.reduce((n, c) => n + (c?.runs ?? 0), 0)
  return counts.some((c) => c?.more) ? `${Math.min(runs, counted).toLocaleString('en')}+` : runs.toLocaleString('en')
}
