import { get, path } from './api'
import type { Reason, Run } from './types'

// What runs of a list wait for. The list does not say it, so it is asked for one run after the
// other, and remembered as long as the run has not changed.

const known = new Map<string, Promise<string>>()
let last: Promise<unknown> = Promise.resolve()

export function waitingOn(run: Run): Promise<string> {
  const key = [run.run_id, run.status, run.wake, run.messages].join(' ')
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
