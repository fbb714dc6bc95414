/** The conditions of a list of runs, as its address has them. */
export interface Conditions {
  status: string[]
  workflow: string
  filter: string
  since: string
  until: string
}

export function conditionsOf(query: URLSearchParams): Conditions {
  const of = (name: string) => query.get(name) ?? ''
  const status = of('status') ? of('status').split(',') : []
  return { status, workflow: of('workflow'), filter: of('filter'), since: of('since'), until: of('until') }
}

export const none = { status: '', workflow: '', filter: '', since: '', until: '' }

export const isAny = (c: Conditions) => !!(c.status.length || c.workflow || c.filter || c.since || c.until)

const times = (c: Conditions) => [c.since && `since=${c.since}`, c.until && `until=${c.until}`]
const joined = (parts: string[]) => parts.filter(Boolean).join(' ')

/** The parameters by which the API lists the runs. */
export function askedOf(c: Conditions): string {
  const q = new URLSearchParams()
  const filter = joined([c.filter, ...times(c)])
  if (filter) q.set('filter', filter)
  if (c.workflow) q.set('workflow', c.workflow)
  for (const s of c.status) q.append('status', s)
  return q.toString()
}

/** The conditions as one filter. */
export const filterOf = (c: Conditions) =>
  joined([
    c.status.length ? `status=${c.status.join(',')}` : '',
    c.workflow && `workflow=${c.workflow}`,
    ...times(c),
    c.filter,
  ])
