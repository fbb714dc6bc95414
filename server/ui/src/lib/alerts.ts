import { words } from './status'
import type { Alert, AlertRule } from './types'

/** The causes of alerts, in words. */
export const causes: Record<string, string> = {
  ended: 'a run ends without success',
  'dead-lettered': 'a dead letter is new',
  stalled: 'a run is suspended or stands still',
  'too-slow': 'a run is open for too long',
  waiting: 'a run waits too long for a slot or an engine',
  'no-engine': 'no engine has the workflow',
  'approval-due': 'the reminder of an approval is due',
}

/** An end in words. One of two that read alike is of TCCs alone. */
export const endOf = (status: string) => (status === 'CANCELED' ? 'canceled, of a TCC' : words(status))

/** The ends that a rule may name, and those that it counts if it names none. */
export const ends = ['FAILED', 'TIMED_OUT', 'COMPENSATED', 'COMPENSATION_FAILED', 'CANCELLED', 'CANCELED']
const usual = ends.slice(0, 4)

/** The name of a rule, for people. */
export const title = (a?: Alert) => (a ? a.workflow || 'all others' : '')

/** A rule without its name, and without what is kept about who has set it. */
export function ruleOf({ workflow: _, by: _by, reason: _reason, at: _at, ...rule }: Alert): AlertRule {
  return rule
}

/** When a rule alerts, in words. */
export function whenOf(r: AlertRule): string[] {
  if (r.off) return ['never: it is silent']
  const has = (cause: string) => !r.causes?.length || r.causes.includes(cause)
  const all: string[] = []
  if (has('ended')) {
    const end = `a run ends as ${(r.statuses?.length ? r.statuses : usual).map(endOf).join(', ')}`
    const often = [
      r.in_a_row ? `${r.in_a_row} of them in a row` : '',
      r.times ? `${r.times} of them within ${r.within}` : '',
    ].filter(Boolean)
    all.push(often.length ? `${end}: ${often.join(', or ')}` : end)
  }
  if (has('too-slow') && r.longest) all.push(`a run is open for more than ${r.longest}`)
  if (has('waiting') && r.longest_wait) all.push(`a run waits more than ${r.longest_wait} for a slot or an engine`)
  for (const c of ['dead-lettered', 'stalled', 'no-engine', 'approval-due']) if (has(c)) all.push(causes[c]!)
  return all.length ? all : ['never: the causes that it names need a time']
}

/** An element of a list in a flag, which is read as CSV. */
const field = (s: string) => (/[",\s]/.test(s) ? `"${s.replaceAll('"', '""')}"` : s)

/** The words of the command that sets a rule. The command keeps the part of the old rule that it
 * does not name, so it names that too. */
export function commandOf(workflow: string, rule: AlertRule, old: AlertRule = {}): string[] {
  const flags = Object.keys({ ...old, ...rule } as Record<string, unknown>).flatMap((key) => {
    const value = rule[key as keyof AlertRule]
    const none = Array.isArray(old[key as keyof AlertRule]) ? '' : '0'
    const flag = '--' + key.replaceAll('_', '-')
    if (key === 'off') return value ? [flag] : [flag + '=false']
    return [flag, Array.isArray(value) ? value.map(field).join(',') : String(value ?? none)]
  })
  return ['alerts', 'set', ...(workflow ? [workflow] : ['--default']), ...flags]
}
