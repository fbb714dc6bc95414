import { store, stored } from '../lib/stored'

/** A name for an address. */
export interface View {
  name: string
  to: string
}

export const builtIn: View[] = [
  { name: 'All', to: 'runs' },
  { name: 'Failed in 24 h', to: 'runs?status=FAILED,TIMED_OUT&since=24h' },
  { name: 'Waiting for a person', to: 'approvals' },
  { name: 'Parked', to: 'runs?status=SUSPENDED,COMPENSATION_FAILED' },
  {
    name: 'Stuck for 1 h',
    to: 'runs?status=PENDING,RUNNING,TRYING,CONFIRMING,CANCELING,COMPENSATING&filter=stale=1h',
  },
  { name: 'Open for a day', to: 'runs?filter=open&until=24h' },
]

const fits = (v: unknown): v is View[] =>
  Array.isArray(v) && v.every((o: View) => typeof o?.name === 'string' && /^runs(\?|$)/.test(o.to))

/** The views of the reader, which this browser keeps. */
export const own = $state({ views: stored('views', [], fits) })

function set(views: View[]) {
  own.views = views
  store('views', views)
}

/** Saves a view; one with the same name is replaced. */
export function save(view: View) {
  set([...own.views.filter((v) => v.name !== view.name), view])
}

export const remove = (name: string) => set(own.views.filter((v) => v.name !== name))

/** Whether two addresses have the same parameters. */
export function same(a: string, b: string): boolean {
  const parts = (to: string) => {
    const [path, query] = to.split('?', 2)
    const q = new URLSearchParams(query)
    q.sort()
    return `${path}?${q}`
  }
  return parts(a) === parts(b)
}
