import type { Ask } from './act'
import { path } from './api'
import { batchAction, type BatchAction } from './batchactions'
import { statuses } from './status'
import type { DeadLetter } from './types'

interface LetterAct {
  title: string
  danger?: boolean
  whyNot: (l: DeadLetter) => string
  ask: (l: DeadLetter) => Ask
}

const notRetried = (l: DeadLetter) =>
  l.handled_at ? 'it is handled' : l.run_id ? '' : 'it was added from outside, and has no run'
const of = (l: DeadLetter) => l.workflow_id || l.workflow

/** What people do with a dead letter. */
export const letterActs: LetterAct[] = [
  {
    title: 'Retry',
    whyNot: notRetried,
    ask: (l) => ({
      title: `Retry ${of(l)}`,
      about: 'A new run goes on where this one has failed. The dead letter ends by itself when that run has passed the step.',
      verb: 'Retry',
      keeps: 'with the run',
      act: {
        method: 'POST',
        path: path`dlq/${l.id ?? ''}/retry`,
        body: {},
        cli: ['deadletters', 'retry', l.id ?? ''],
        reason: 'body',
      },
    }),
  },
  {
    title: 'Handle',
    whyNot: (l) => (l.handled_at ? 'it is handled' : ''),
    ask: (l) => ({
      title: `Handle ${of(l)}`,
      about: 'Somebody has dealt with the failure in another way. The dead letter is closed, and its run stays as it is. Say how in the reason.',
      verb: 'Mark as handled',
      act: {
        method: 'POST',
        path: path`dlq/${l.id ?? ''}/handle`,
        body: {},
        cli: ['deadletters', 'handle', l.id ?? ''],
        reason: 'body',
        flag: '--note',
      },
    }),
  },
  {
    title: 'Delete',
    danger: true,
    whyNot: () => '',
    ask: (l) => ({
      title: `Delete the dead letter of ${of(l)}`,
      about: 'Nobody will find the failure here any more. Its run stays.',
      verb: 'Delete',
      danger: true,
      act: {
        method: 'DELETE',
        path: path`dlq/${l.id ?? ''}`,
        cli: ['deadletters', 'delete', l.id ?? ''],
        reason: 'query',
      },
    }),
  },
]

/** Retries the runs of dead letters, whatever their status. */
export const retryLetters: BatchAction = {
  ...batchAction('retry'),
  about: 'A batch retries the runs of these dead letters from the failed steps. A dead letter ends by itself when its new run has passed the step.',
  of: statuses,
}

/** The letters that can be retried. */
export const retried = (all: DeadLetter[]) => all.filter((l) => !notRetried(l))
