import { filterOf, type Conditions } from './conditions'
import { look, statuses } from './status'
import type { Run } from './types'

/** What a batch does with many runs, as the API and the command line name it. */
export interface BatchAction {
  name: string
  title: string
  about: string
  past: string
  danger?: boolean
  /** Whether it takes a step, and whether that may be left out. */
  step?: 'must' | 'may'
  json?: string
  /** The statuses that it is for, and these in words. */
  of: string[]
  needs: string
  /** What it selects if there are no conditions. */
  usual: string
}

const open = statuses.filter((s) => look(s).open)
const failed = ['FAILED', 'TIMED_OUT', 'CANCELLED']
const ended = [...failed, 'COMPLETED', 'COMPENSATED', 'CANCELED']

export const batchActions: BatchAction[] = [
  {
    name: 'retry',
    title: 'Retry',
    about: 'New runs go on where these have failed. What is done stays done.',
    past: 'retried',
    of: failed,
    needs: 'failed, timed out or cancelled',
    usual: 'status=FAILED,TIMED_OUT',
  },
  {
    name: 'skip',
    title: 'Skip',
    about: 'New runs go on behind the failed steps, which get the output that you give.',
    past: 'retried without the failed step',
    step: 'may',
    json: 'Output of the step',
    of: failed,
    needs: 'failed, timed out or cancelled',
    usual: 'status=FAILED,TIMED_OUT',
  },
  {
    name: 'fork',
    title: 'Fork',
    about: 'New runs do a step again, and what came after it. What came before is kept.',
    past: 'forked',
    step: 'must',
    of: ended,
    needs: 'at its end',
    usual: `status=${ended.join(',')}`,
  },
  {
    name: 'compensate',
    title: 'Roll back',
    about: 'New runs undo the steps of these, the last one first.',
    past: 'rolled back',
    danger: true,
    of: ['COMPLETED'],
    needs: 'completed',
    usual: 'status=COMPLETED',
  },
  {
    name: 'cancel',
    title: 'Cancel',
    about: 'The runs clean up and end as cancelled. Sagas and TCCs undo what they have done.',
    past: 'cancelled',
    danger: true,
    of: open,
    needs: 'open',
    usual: 'open',
  },
  {
    name: 'terminate',
    title: 'Terminate',
    about: 'The runs end at once. Nothing is cleaned up, and nothing is undone: cancel does that.',
    past: 'terminated',
    danger: true,
    of: open,
    needs: 'open',
    usual: 'open',
  },
]

/** The runs of an action: those of a list, or those that meet conditions. */
export type Target = { runs: Pick<Run, 'run_id' | 'status'>[] } | { runs?: undefined; conditions: Conditions }

/** The action with a name. */
export const batchAction = (name: string) => batchActions.find((a) => a.name === name)!

/** What a batch gets of the target: the runs whose status the action is for. */
export function selected(a: BatchAction, t: Target): { runs?: string[]; filter?: string } {
  if (t.runs) return { runs: t.runs.filter((r) => a.of.includes(r.status)).map((r) => r.run_id) }
  const c = t.conditions
  return { filter: filterOf({ ...c, status: c.status.filter((s) => a.of.includes(s)) }) || a.usual }
}

/** The statuses of the target that the action is not for, each with the number of runs if that is known. */
export function unfit(a: BatchAction, t: Target): Map<string, number | undefined> {
  const out = new Map<string, number | undefined>()
  if (t.runs) for (const r of t.runs) if (!a.of.includes(r.status)) out.set(r.status, (out.get(r.status) ?? 0) + 1)
  if (!t.runs) for (const s of t.conditions.status) if (!a.of.includes(s)) out.set(s, undefined)
  return out
}

/** Why an action is not to be had for any run of the target; empty if it is. */
export function whyNone(a: BatchAction, t: Target): string {
  const all = t.runs ? t.runs.map((r) => r.status) : t.conditions.status
  if (all.some((s) => a.of.includes(s)) || (!t.runs && all.length === 0)) return ''
  return `none of the chosen runs is ${a.needs}`
}
