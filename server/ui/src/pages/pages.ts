import type { Component } from 'svelte'
import Approvals from './Approvals.svelte'
import NotFound from './NotFound.svelte'
import Overview from './Overview.svelte'
import Run from './Run.svelte'
import Runs from './Runs.svelte'
import Workflow from './Workflow.svelte'
import Workflows from './Workflows.svelte'

interface Page {
  title: string
  component: Component<any>
  props?: Record<string, string>
}

/** The pages of the navigation. The key opens one after g. */
export const places = [
  { path: '', title: 'Overview', key: 'o' },
  { path: 'runs', title: 'Runs', key: 'r' },
  { path: 'workflows', title: 'Workflows', key: 'w' },
  { path: 'approvals', title: 'Approvals', key: 'a' },
]

const fixed: Record<string, Component> = {
  '': Overview,
  runs: Runs,
  workflows: Workflows,
  approvals: Approvals,
}

/** The page of a path. */
export function pageOf(path: string): Page {
  const of = places.find((p) => p.path === path)
  if (of) return { title: of.title, component: fixed[path]! }
  const [first, name, ...rest] = path.split('/').map(decodeURIComponent)
  if (name && rest.length === 0) {
    if (first === 'runs') return { title: `Run ${name}`, component: Run, props: { id: name } }
    if (first === 'workflows') return { title: name, component: Workflow, props: { name } }
  }
  return { title: 'Not found', component: NotFound }
}
