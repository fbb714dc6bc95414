import { get, path } from './api'
import type { Reason, Run } from './types'

// What runs of a list wait for. The list does not say it, so it is asked for one run after the
// other, and remembered as long as the run has not changed. The place of a run in line changes
// without it, so a pending one is asked for again after a while.

interface Asked {
  answer: Promise<string>
  at: number // when it was answered; Infinity before
}

const known = new Map<string, Asked>()
const again = 15_000
let last: Promise<unknown> = Promise.resolve()

export function waitingOn(run: Run): Promise<string> {
  const key = [run.run_id, run.status, run.wake, run.messages].join(' ')
  const old = known.get(key)
  if (old && (run.status !== 'PENDING' || Date.now() - old.at < again)) return old.answer
  if (known.size > 2000) known.clear()
  const answer = last.then(() => get<Reason>(path`executions/${run.run_id}/why`)).then(
    (r) => {
      asked.at = Date.now()
      return r.why
    },
    () => {
      known.delete(key)
      return ''
    },
  )
  const asked: Asked = { answer, at: Infinity }
  known.set(key, asked)
  last = answer
  return answer
}
