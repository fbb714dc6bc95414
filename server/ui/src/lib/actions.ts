import type { Execution } from './types'

export interface Action {
  name: string
  title: string
  about: string
  danger?: boolean
  /** It begins a new run, and can say before what that keeps. */
  previews?: boolean
  /** The steps of which it takes one; none for an action on the run as a whole. */
  steps?: (run: Execution) => string[]
  /** Its field for JSON. */
  json?: string
  /** Why it is not to be had for a run; empty if it is. */
  whyNot: (run: Execution) => string
}

const ended = (run: Execution) => (run.ended ? 'the run has ended' : '')
const open = (run: Execution) => (run.ended ? '' : 'the run goes on')
const failed = (run: Execution) =>
  open(run) || (run.is_success ? 'the run has ended well' : run.goes_on_as ? 'another run goes on from it' : '')

const allSteps = (run: Execution) => (run.steps ?? []).map((s) => s.path)
const failedSteps = (run: Execution) =>
  (run.steps ?? []).filter((s) => s.status === 'FAILED' || s.status === 'TIMED_OUT').map((s) => s.path)

/** What people do with runs, as the API and the command line name it. */
export const actions: Action[] = [
  {
    name: 'signal',
    title: 'Signal',
    about: 'Sends the run a message that its code may wait for.',
    json: 'Payload',
    whyNot: ended,
  },
  {
    name: 'suspend',
    title: 'Suspend',
    about: 'The run begins no step until it is resumed. Steps in flight end.',
    whyNot: (run) =>
      ended(run) || (['PENDING', 'RUNNING', 'WAITING'].includes(run.status) ? '' : 'it cannot be suspended in this state'),
  },
  {
    name: 'resume',
    title: 'Resume',
    about: 'The run goes on where it was suspended.',
    whyNot: (run) =>
      ended(run) || (['SUSPENDED', 'COMPENSATION_FAILED'].includes(run.status) ? '' : 'the run is not suspended'),
  },
  {
    name: 'cancel',
    title: 'Cancel',
    about: 'The run cleans up and ends as cancelled. Sagas and TCCs undo what they have done.',
    danger: true,
    whyNot: ended,
  },
  {
    name: 'terminate',
    title: 'Terminate',
    about: 'The run ends at once. Nothing is cleaned up, and nothing is undone: cancel does that.',
    danger: true,
    whyNot: ended,
  },
  {
    name: 'retry',
    title: 'Retry',
    about: 'A new run goes on where this one has failed. What is done stays done.',
    previews: true,
    whyNot: failed,
  },
  {
    name: 'skip',
    title: 'Skip',
    about: 'A new run goes on behind the failed step, which gets the output that you give.',
    previews: true,
    steps: failedSteps,
    json: 'Output of the step',
    whyNot: (run) => failed(run) || (failedSteps(run).length ? '' : 'no step has failed'),
  },
  {
    name: 'fork',
    title: 'Fork',
    about: 'A new run does a step again, and what came after it. What came before is kept.',
    previews: true,
    steps: allSteps,
    whyNot: (run) => open(run) || (allSteps(run).length ? '' : 'no step has begun'),
  },
  {
    name: 'compensate',
    title: 'Roll back',
    about: 'A new run undoes the steps of this one, the last one first.',
    danger: true,
    previews: true,
    whyNot: (run) => open(run) || (run.undoable?.length ? '' : 'it has nothing that can be undone'),
  },
]
