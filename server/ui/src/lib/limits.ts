import type { Limit } from './types'

/** What a part of a limit counts. */
export const parts: Record<string, string> = {
  runs: 'runs at a time',
  key: 'runs at a time with one key',
  rate: 'tokens given for later',
  lock: 'slots of the semaphore',
  one: 'one run, or one that gathers starts',
}

/** The name of a limit in an address of the API. */
export const nameInPath = (name: string) => name || '-'

/** The numbers that an operator has set, in words. */
export function numbers(l: Limit): string {
  const all: string[] = []
  const add = (n: number | undefined, what: string) => {
    if (n !== undefined) all.push(n === 0 ? `any number of ${what}` : `${n} ${what}`)
  }
  add(l.concurrency, 'runs at a time')
  add(l.per_key, 'with one key')
  add(l.slots, 'slots')
  if (l.rate) all.push(l.rate === '0' ? 'any rate' : `${l.rate}${l.burst ? `, ${l.burst} at once` : ''}`)
  return all.join(', ')
}
