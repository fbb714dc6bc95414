import { path } from './api'
import type { Ask } from './act'
import { cronWords } from './cron'
import type { Tone } from './status'
import type { IconName } from './icons'
import type { Schedule, ScheduleSpec } from './types'

/** A duration of Go for people: 1h30m0s is 1h30m. */
export const brief = (text: string) => text.replace(/(\D)0s$/, '$1').replace(/(h)0m$/, '$1')

/** When a schedule starts its runs, in words. */
export function specWords(s: ScheduleSpec): string {
  if (s.every) return `every ${brief(s.every)}`
  if (s.after) return `${brief(s.after)} after the end of a run`
  return cronWords(s.cron ?? '') || 'by a cron expression'
}

export const overlaps: Record<string, string> = {
  skip: 'the time is missed',
  allow: 'a run starts beside it',
  buffer: 'a run starts when it has ended',
  cancel: 'it is cancelled, and then a run starts',
}

export const catchUps: Record<string, string> = {
  last: 'the last of them starts a run',
  none: 'they are missed',
  all: 'each of them starts a run',
}

export const scheduleLook: Record<string, [IconName, Tone]> = {
  active: ['check', 'good'],
  paused: ['pause', 'waiting'],
  finished: ['stop', 'still'],
  deleted: ['stop', 'still'],
  broken: ['alert', 'bad'],
}

const gone = (s: Schedule) =>
  s.status === 'finished' || s.status === 'deleted' ? `the schedule is ${s.status}` : ''

interface ScheduleAct {
  title: string
  ask: (s: Schedule) => Ask
  whyNot: (s: Schedule) => string
  danger?: boolean
}

const post = (s: Schedule, word: string) => ({
  method: 'POST' as const,
  path: path`schedules/${s.name}/` + word,
  body: {},
  cli: ['schedules', word, s.name],
  reason: 'body' as const,
})

/** What people do with a schedule, besides its spec and backfills. */
export const scheduleActs: ScheduleAct[] = [
  {
    title: 'Run now',
    whyNot: gone,
    ask: (s) => ({
      title: `Run ${s.name} now`,
      about: `Starts a run of ${s.spec.workflow} beside the times of the schedule, also if it is paused.${
        s.open && s.spec.overlap !== 'allow' ? ' The run waits for the end of the one that is open.' : ''
      }`,
      verb: 'Run now',
      act: post(s, 'run'),
    }),
  },
  {
    title: 'Pause',
    whyNot: gone,
    ask: (s) => ({
      title: `Pause ${s.name}`,
      about: 'The schedule starts nothing by itself until it is resumed. Its open run goes on.',
      verb: 'Pause',
      act: post(s, 'pause'),
    }),
  },
  {
    title: 'Resume',
    whyNot: (s) => gone(s) || (s.paused ? '' : 'the schedule is not paused'),
    ask: (s) => ({
      title: `Resume ${s.name}`,
      about: 'The schedule goes on with its next future time. Times that came meanwhile are missed.',
      verb: 'Resume',
      act: post(s, 'resume'),
    }),
  },
  {
    title: 'Delete',
    danger: true,
    whyNot: gone,
    ask: (s) => ({
      title: `Delete ${s.name}`,
      about: 'The schedule ends. Its runs stay, and an open one goes on. One that code declares comes back with the next engine.',
      verb: 'Delete',
      danger: true,
      act: {
        method: 'DELETE',
        path: path`schedules/${s.name}`,
        cli: ['schedules', 'delete', s.name],
        reason: 'query',
      },
    }),
  },
]
