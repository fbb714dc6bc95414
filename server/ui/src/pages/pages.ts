import type { Component } from 'svelte'
import Alerts from './Alerts.svelte'
import Approvals from './Approvals.svelte'
import Audit from './Audit.svelte'
import Batch from './Batch.svelte'
import Batches from './Batches.svelte'
import Configuration from './Configuration.svelte'
import DeadLetter from './DeadLetter.svelte'
import DeadLetters from './DeadLetters.svelte'
import Decide from './Decide.svelte'
import Doctor from './Doctor.svelte'
import HistoryFile from './HistoryFile.svelte'
import Limits from './Limits.svelte'
import NotFound from './NotFound.svelte'
import Overview from './Overview.svelte'
import Run from './Run.svelte'
import Runs from './Runs.svelte'
import Schedule from './Schedule.svelte'
import Schedules from './Schedules.svelte'
import Signals from './Signals.svelte'
import Workers from './Workers.svelte'
import Workflow from './Workflow.svelte'
import Workflows from './Workflows.svelte'

interface Page {
  title: string
  component: Component<any>
  props?: Record<string, string>
  open?: boolean // it needs no login, and shows nothing but itself
}

interface Place {
  path: string
  title: string
  key: string // opens the page after g
  component: Component
}

/** The pages of the navigation. */
export const main: Place[] = [
  { path: '', title: 'Overview', key: 'o', component: Overview },
  { path: 'runs', title: 'Runs', key: 'r', component: Runs },
  { path: 'workflows', title: 'Workflows', key: 'w', component: Workflows },
  { path: 'approvals', title: 'Approvals', key: 'a', component: Approvals },
]

/** The pages for those who look after the server. They have a navigation of their own. */
export const operations: Place[] = [
  { path: 'doctor', title: 'Doctor', key: 'd', component: Doctor },
  { path: 'schedules', title: 'Schedules', key: 's', component: Schedules },
  { path: 'dead-letters', title: 'Dead letters', key: 'x', component: DeadLetters },
  { path: 'signals', title: 'Signals', key: 'i', component: Signals },
  { path: 'batches', title: 'Batches', key: 'b', component: Batches },
  { path: 'limits', title: 'Limits', key: 'l', component: Limits },
  { path: 'alerts', title: 'Alerts', key: 'n', component: Alerts },
  { path: 'workers', title: 'Workers', key: 'e', component: Workers },
  { path: 'audit', title: 'Audit', key: 'u', component: Audit },
  { path: 'configuration', title: 'Configuration', key: 't', component: Configuration },
]

export const places = [...main, ...operations]

/** A page without a place in the navigation. */
export const file = { path: 'history-file', title: 'History from a file' }

/** The names in a path. None if it is malformed. */
function namesOf(path: string): string[] {
  try {
    return path.split('/').map(decodeURIComponent)
  } catch {
    return []
  }
}

/** The page of a path. */
export function pageOf(path: string): Page {
  const of = places.find((p) => p.path === path)
  if (of) return of
  if (path === file.path) return { title: file.title, component: HistoryFile }
  if (path === 'decide') return { title: 'Decide', component: Decide, open: true }
  const [first, name, ...rest] = namesOf(path)
  if (name && rest.length === 0) {
    if (first === 'runs') return { title: `Run ${name}`, component: Run, props: { id: name } }
    if (first === 'schedules') return { title: name, component: Schedule, props: { name } }
    if (first === 'dead-letters') return { title: 'Dead letter', component: DeadLetter, props: { id: name } }
    if (first === 'batches') return { title: `Batch ${name}`, component: Batch, props: { id: name } }
    if (first === 'workflows') return { title: name, component: Workflow, props: { name } }
  }
  return { title: 'Not found', component: NotFound }
}
