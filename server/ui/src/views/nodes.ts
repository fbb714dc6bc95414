import { span } from '../lib/format'
import { look, words } from '../lib/status'
import type { Execution, RunGraph, Step, Topology } from '../lib/types'
import type { Arrow } from './layout'

/** A node of a drawing: a step of a graph or a state of a machine, with what a run has done. */
export interface Node {
  name: string
  status: string // empty if there is no run
  note: string // a condition, or why it was not done
  dim: boolean // it was not done
  critical: boolean
  current: boolean
  visits: Step[] // the newest last
  attempts: number
  took?: number
  error?: string
  undo: boolean
}

export interface Picture {
  nodes: Node[]
  arrows: (Arrow & { critical?: boolean; taken?: boolean })[]
}

/** The name of a step without its scopes, key and phase, such as verify of split.a[b]/verify[2]. */
export const plain = (path: string) => path.slice(path.lastIndexOf('/') + 1).replace(/[[#].*$/, '')

/** The node that an operation belongs to, such as notify of child:notify/notify, or open of
 * wait.open[2]. */
export function nodeOf(operation: string, names: Set<string>): string {
  for (const part of operation.split('/')) {
    const name = part.replace(/[[#].*$/, '')
    if (names.has(name)) return name
    const of = name.replace(/^([a-z]+:|wait\.|split\.)/, '')
    if (names.has(of)) return of
  }
  return ''
}

const millis = (s: Step) => (s.started && s.ended ? Date.parse(s.ended) - Date.parse(s.started) : undefined)

/** The drawing of a definition, and of a run of it if there is one. */
export function pictureOf(t: Topology | RunGraph, run?: Execution): Picture {
  const diagram = t.diagram
  const nodes = diagram ? diagram.states : (t.graph?.nodes ?? [])
  const names = new Set(nodes.map((n) => n.name))
  const visits = new Map<string, Step[]>()
  for (const s of 'steps' in t ? t.steps : []) {
    const name = plain(s.path)
    if (!names.has(name)) continue
    const all = visits.get(name)
    if (all) all.push(s)
    else visits.set(name, [s])
  }
  const waiting = new Set((run?.waits ?? []).map((w) => nodeOf(w.path, names)))
  const failed = 'root_cause' in t ? t.root_cause?.[0] : undefined
  const cause = failed ? nodeOf(failed.step ?? '', names) || failed.step : ''
  const out = nodes.map((n): Node => {
    const of = visits.get(n.name) ?? []
    const last = of.at(-1)
    const when = 'when' in n && n.when ? `if ${n.when}` : ''
    let status = last?.status ?? ''
    let note = when
    if (run && !last) {
      status = waiting.has(n.name) ? 'WAITING' : run.ended ? 'NOT_DONE' : 'PENDING'
      if (status === 'NOT_DONE' && cause && cause !== n.name) note = `because of ${cause}`
    }
    if (status === 'RUNNING' && waiting.has(n.name)) status = 'WAITING'
    if (status === 'SKIPPED') note = when || last?.reason || ''
    const took = of.map(millis).filter((m) => m !== undefined)
    return {
      name: n.name,
      status,
      note,
      dim: status === 'SKIPPED' || status === 'NOT_DONE',
      critical: false,
      current: !!run && !run.ended && look(status).open && status !== 'PENDING',
      visits: of,
      attempts: of.reduce((sum, s) => sum + s.attempts, 0),
      took: took.length ? took.reduce((a, b) => a + b, 0) : undefined,
      error: last?.error?.message,
      undo: !!n.undo,
    }
  })
  const arrows = diagram ? arrowsOfDiagram(diagram) : arrowsOfGraph(t)
  const picture: Picture = { nodes: out, arrows }
  if (diagram) markTaken(picture, 'steps' in t ? t.steps : [])
  else markCritical(picture)
  return picture
}

function arrowsOfGraph(t: Topology): Arrow[] {
  return (t.graph?.nodes ?? []).flatMap((n) => (n.after ?? []).map((from) => ({ from, to: n.name })))
}

function arrowsOfDiagram(d: NonNullable<Topology['diagram']>): Arrow[] {
  return d.states.flatMap((s) => {
    const own = (s.to ?? []).filter((e) => e.to).map((e) => ({ from: s.name, to: e.to!, label: e.label }))
    if (own.some((a) => a.label === 'error')) return own
    return [...own, ...(d.on_error ?? []).filter((to) => to !== s.name).map((to) => ({ from: s.name, to, label: 'error' }))]
  })
}

/** Marks the arrows that the run has followed, by the steps in the order of the journal: several
 * may begin in one millisecond. */
function markTaken(p: Picture, steps: Step[]) {
  const names = new Set(p.nodes.map((n) => n.name))
  const scope = (path: string) => path.slice(0, path.lastIndexOf('/') + 1)
  const last = new Map<string, string>() // by the branch of a split
  const taken = new Set<string>()
  for (const { path } of steps) {
    const name = plain(path)
    if (!names.has(name)) continue
    const of = scope(path)
    const splitter = /(?:^|\/)split\.([^[/]+)\[[^\]]*\]\/$/.exec(of)?.[1]
    const from = last.get(of) ?? splitter
    if (from) taken.add(`${from}\n${name}`)
    last.set(of, name)
  }
  for (const a of p.arrows) a.taken = taken.has(`${a.from}\n${a.to}`)
}

/** Marks the chain of steps that the end of the run has waited for. */
function markCritical(p: Picture) {
  const end = (n: Node) => Date.parse(n.visits.at(-1)?.ended ?? '') || 0
  const byName = new Map(p.nodes.map((n) => [n.name, n]))
  const before = new Map<string, Arrow[]>()
  for (const a of p.arrows) before.set(a.to, [...(before.get(a.to) ?? []), a])
  let at: Node | undefined = p.nodes.reduce<Node | undefined>((a, b) => (end(b) > (a ? end(a) : 0) ? b : a), undefined)
  let length = 0
  const chain: Node[] = []
  const links: Picture['arrows'] = []
  while (at && length++ < p.nodes.length) {
    chain.push(at)
    const link: Picture['arrows'][number] | undefined = (before.get(at.name) ?? []).reduce<Arrow | undefined>(
      (a, b) => (end(byName.get(b.from)!) > (a ? end(byName.get(a.from)!) : 0) ? b : a),
      undefined,
    )
    if (link) links.push(link)
    at = link && byName.get(link.from)
  }
  if (chain.length < 2) return
  for (const n of chain) n.critical = true
  for (const a of links) a.critical = true
}

/** What is said of a node where its looks cannot be seen. */
export function saying(n: Node, p: Picture): string {
  const after = p.arrows.filter((a) => a.to === n.name).map((a) => a.from)
  return [
    n.name + (n.status ? `: ${words(n.status)}` : ''),
    n.visits.length > 1 ? `${n.visits.length} visits` : '',
    n.took === undefined ? '' : `took ${span(n.took)}`,
    n.note,
    n.critical ? 'on the critical path' : '',
    after.length ? `after ${after.slice(0, 10).join(', ')}` : '',
  ]
    .filter(Boolean)
    .join(', ')
}
