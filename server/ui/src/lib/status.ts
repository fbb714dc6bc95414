import type { IconName } from './icons'

export type Tone = 'going' | 'waiting' | 'good' | 'bad' | 'undone' | 'still'

interface Look {
  icon: IconName
  tone: Tone
  open: boolean
}

const looks: Record<string, Look> = {
  PENDING: { icon: 'clock', tone: 'still', open: true },
  RUNNING: { icon: 'play', tone: 'going', open: true },
  WAITING: { icon: 'wait', tone: 'waiting', open: true },
  SUSPENDED: { icon: 'pause', tone: 'waiting', open: true },
  TRYING: { icon: 'play', tone: 'going', open: true },
  CONFIRMING: { icon: 'play', tone: 'going', open: true },
  CANCELING: { icon: 'undo', tone: 'undone', open: true },
  COMPENSATING: { icon: 'undo', tone: 'undone', open: true },
  COMPENSATION_FAILED: { icon: 'alert', tone: 'bad', open: true },
  COMPLETED: { icon: 'check', tone: 'good', open: false },
  FAILED: { icon: 'cross', tone: 'bad', open: false },
  CANCELLED: { icon: 'stop', tone: 'still', open: false },
  TIMED_OUT: { icon: 'clock', tone: 'bad', open: false },
  CONFIRMED: { icon: 'check', tone: 'good', open: false },
  CANCELED: { icon: 'stop', tone: 'still', open: false },
  COMPENSATED: { icon: 'undo', tone: 'undone', open: false },
  CONTINUED_AS_NEW: { icon: 'again', tone: 'still', open: false },
}

/** The statuses of runs, open ones first. */
export const statuses = Object.keys(looks)

const steps: Record<string, Look> = {
  DONE: { icon: 'check', tone: 'good', open: false },
  RETRYING: { icon: 'again', tone: 'waiting', open: true },
  SKIPPED: { icon: 'skip', tone: 'still', open: false },
  NOT_DONE: { icon: 'dot', tone: 'still', open: false },
  TRY_FAILED: { icon: 'cross', tone: 'bad', open: false },
  CONFIRM_FAILED: { icon: 'alert', tone: 'bad', open: false },
  CANCEL_FAILED: { icon: 'alert', tone: 'bad', open: false },
  TRIED: { icon: 'check', tone: 'good', open: false },
}

export const look = (status: string): Look =>
  looks[status] ?? steps[status] ?? { icon: 'dot', tone: 'still', open: false }

/** A status as words. */
export const words = (status: string) => status.toLowerCase().replaceAll('_', ' ')
