import { store, stored } from '../lib/stored'

export interface Column {
  name: string
  title: string
  /** Its share of the width, about in rem. */
  width: number
}

export const everyColumn: Column[] = [
  { name: 'status', title: 'Status', width: 11 },
  { name: 'workflow', title: 'Workflow', width: 10 },
  { name: 'id', title: 'ID', width: 14 },
  { name: 'created', title: 'Created', width: 8 },
  { name: 'took', title: 'Took', width: 8 },
  { name: 'why', title: 'Waits for, or failed by', width: 24 },
  { name: 'run', title: 'Run ID', width: 14 },
  { name: 'pattern', title: 'Pattern', width: 9 },
  { name: 'engine', title: 'Engine', width: 7 },
  { name: 'crashes', title: 'Crashes', width: 7 },
  { name: 'messages', title: 'Messages', width: 8 },
  { name: 'ended', title: 'Ended', width: 8 },
  { name: 'wake', title: 'Goes on', width: 8 },
]

const usual = ['status', 'workflow', 'id', 'created', 'took', 'why']
const byName = new Map(everyColumn.map((c) => [c.name, c]))

const fits = (v: unknown): v is string[] =>
  Array.isArray(v) && v.includes('id') && v.every((n) => byName.has(n)) && new Set(v).size === v.length

/** The names of the columns that the reader wants, in order. */
const wanted = $state({ names: stored('columns', usual, fits) })

export const shownColumns = () => wanted.names.map((n) => byName.get(n)!)

export function setColumns(names: string[]) {
  wanted.names = names
  store('columns', names)
}

export function resetColumns() {
  wanted.names = usual
  store('columns', undefined)
}
