import type { Act } from '../lib/act'
import { path } from '../lib/api'
import { batchAction, type BatchAction, type Target } from '../lib/batchactions'
import { conditionsOf } from '../lib/conditions'

/** An action on one of what a check has found. */
export interface Each {
  title: string
  about: string
  act: Act
}

/** A batch on all runs that a check has found. */
export interface All {
  title: string
  action: BatchAction
  target: Target
}

/** What the page can do about a check. */
interface Care {
  /** The IDs of the check are those of runs. */
  runs?: boolean
  /** The page where more of it is. */
  page?: string
  /** What is done about each of its IDs. */
  each?: (id: string) => Each
  /** What a batch does about all of its runs. */
  all?: All[]
}

const resume = (id: string) => ({
  title: 'Resume',
  about: 'The run goes on where it was suspended. One that has a question needs a decision instead.',
  act: {
    method: 'POST',
    path: path`executions/${id}/resume`,
    body: {},
    reason: 'body',
    cli: ['runs', 'resume', id],
  } satisfies Act,
})

const parked = { conditions: conditionsOf(new URLSearchParams('status=SUSPENDED')) }

/** By the names of the checks. */
export const cares: Record<string, Care> = {
  engines: { page: 'workers' },
  builds: { page: 'workers' },
  settings: { page: 'configuration' },
  overdue: { runs: true },
  stale: { runs: true },
  parked: {
    runs: true,
    each: resume,
    all: [
      {
        title: 'Cancel all',
        action: {
          ...batchAction('cancel'),
          about: 'A batch cancels the runs that wait for an operator: they clean up, and sagas and TCCs undo what they have done.',
        },
        target: parked,
      },
      {
        title: 'Terminate all',
        action: {
          ...batchAction('terminate'),
          about: 'A batch ends the runs that wait for an operator at once. Nothing is cleaned up, and nothing is undone.',
        },
        target: parked,
      },
    ],
  },
  rollbacks: {
    runs: true,
    each: (id) => ({ ...resume(id), about: 'The compensations that have failed are tried again. Those that are done stay so.' }),
  },
  'dead letters': { page: 'dead-letters' },
  unrouted: { page: 'signals' },
  limits: { page: 'limits' },
  pauses: {
    each: (id) => ({
      title: 'Resume',
      about: 'The runs of the workflow are taken up again.',
      act: {
        method: 'DELETE',
        path: path`pauses/${id === '--all' ? '-' : id}`,
        reason: 'query',
        cli: ['workflows', 'resume', id],
      },
    }),
  },
}

const worst = ['failed', 'warning', 'ok']

/** How bad a health is: the lowest number is the worst. */
export const rank = (health: string) => worst.indexOf(health)
