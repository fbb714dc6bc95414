import type { Act } from './act'
import { path } from './api'
import type { IconName } from './icons'
import type { Tone } from './status'
import type { Batch } from './types'

const looks: Record<string, { icon: IconName; tone: Tone }> = {
  pending: { icon: 'clock', tone: 'still' },
  running: { icon: 'play', tone: 'going' },
  stopping: { icon: 'stop', tone: 'waiting' },
  stopped: { icon: 'stop', tone: 'still' },
  done: { icon: 'check', tone: 'good' },
  broken: { icon: 'alert', tone: 'bad' },
}

export const lookOf = (b: Batch) => looks[b.status] ?? { icon: 'dot' as const, tone: 'still' as const }

/** Whether a batch goes on. */
export const isOpen = (b: Batch) => ['pending', 'running', 'stopping'].includes(b.status)

/** The act that stops a batch. */
export const stopOf = (id: string): Act => ({
  method: 'POST',
  path: path`batches/${id}/stop`,
  reason: 'query',
  cli: ['batch', 'stop', id],
})

/** What a batch does, and with which runs. */
export function orderOf(b: Batch): string {
  const { order, filter, runs } = b.spec
  const what = order.step ? `${order.action} ${order.step}` : order.action
  if (filter) return `${what} of runs with ${filter}`
  const n = runs?.length || b.expected
  return `${what} of ${n === 1 ? 'one run' : `${n} runs`}`
}

/** How far a batch is. */
export function progressOf(b: Batch): string {
  const parts = [`${b.done} done`]
  if (b.skipped) parts.push(`${b.skipped} skipped`)
  if (b.failed) parts.push(`${b.failed} failed`)
  const all = b.more ? `${b.expected} or more` : Math.max(b.expected, b.matched)
  return `${b.matched} of ${all} runs: ${parts.join(', ')}`
}
