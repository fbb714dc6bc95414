import type { Entry, Error, Execution } from './types'

/** One call of a step's body. */
export interface Attempt {
  key: string // of the attempt in its run
  step: string
  number: number
  /** How it has ended; RUNNING if it has not. SKIPPED if the step was not called. */
  outcome: string
  began?: string // if it is known without the duration: see beganOf
  ended?: string
  took?: number // milliseconds
  error?: Error
  reason?: string
  next?: string // when the next attempt begins
  engine?: number
}

const outcomes: Record<string, string> = {
  StepRetrying: 'FAILED',
  StepCompleted: 'DONE',
  StepFailed: 'FAILED',
  StepTimedOut: 'TIMED_OUT',
  StepCancelled: 'CANCELLED',
  StepSkipped: 'SKIPPED',
}

/** The engine that has made a run: its number is the second to last part of the run ID. */
const makerOf = (run: string) => Number(run.split('-').at(-2)) || undefined

/** When an attempt began. It is computed for one that is shown: there may be thousands. */
export const beganOf = (a: Attempt) =>
  a.began ?? (a.ended && a.took !== undefined ? new Date(Date.parse(a.ended) - a.took).toISOString() : undefined)

/** The attempts of all steps of a run, in the order in which they have ended; those that go on come
 * last. A journal has no entry for the beginning of most attempts, so the run says which go on. */
export function attemptsOf(run: Execution, entries: Entry[]): Attempt[] {
  const out: Attempt[] = []
  const began = new Map<string, string>()
  let engine: number | undefined
  for (const e of entries) {
    if (e.kind === 'RunStarted' && e.status === 'RUNNING') engine = makerOf(e.run_id)
    if (e.kind === 'RunClaimed') engine = e.engine
    if (!e.operation) continue
    const number = e.attempt ?? 1
    if (e.kind === 'StepStarted') began.set(`${e.operation} ${number}`, e.at)
    const outcome = outcomes[e.kind]
    if (!outcome) continue
    out.push({
      key: `${e.seq}`,
      step: e.operation,
      number,
      outcome: e.skipped ? 'SKIPPED' : outcome,
      began: e.took_ms === undefined ? began.get(`${e.operation} ${number}`) : undefined,
      ended: e.at,
      took: e.took_ms,
      error: e.error,
      reason: e.reason,
      next: e.kind === 'StepRetrying' ? e.due : undefined,
      engine: outcome === 'SKIPPED' ? undefined : engine,
    })
  }
  if (run.ended) return out
  for (const s of run.steps ?? []) {
    if (s.status !== 'RUNNING') continue
    const key = `${s.path} ${s.attempts}`
    out.push({
      key,
      step: s.path,
      number: s.attempts,
      outcome: 'RUNNING',
      began: began.get(key) ?? (s.attempts === 1 ? s.started : undefined),
      engine: run.engine,
    })
  }
  return out
}
