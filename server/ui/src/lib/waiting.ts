import { get, path } from './api'
import { now } from './now.svelte'
import type { Reason, Run } from './types'

// What runs of a list wait for. The list does not say it, so it is asked for one run after the
// other, and remembered as long as the run has not changed. The place of a run in line changes
// without it, so that of a pending one is asked for again.

const known = new Map<string, Promise<string>>()
let last: Promise<unknown> = Promise.resolve()

export function waitingOn(run: Run): Promise<string> {
  const turn = run.status === 'PENDING' ? Math.floor(now.ms / 15_000) : 0
  const key = [run.run_id, run.status, run.wake, run.messages, turn].join(' ')
  let answer = known.get(key)
  if (!answer) {
    if (known.size > 2000) known.clear()
    answer = last.then(() => get<Reason>(path`executions/${run.run_id}/why`)).then(
      (r) => r.why,
      () => {
        known.delete(key)
        return ''
      },
    )
    known.set(key, answer)
    last = answer
  }
  return answer
}
