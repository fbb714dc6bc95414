import { tick } from 'svelte'
import { api } from './api'
import { link, lost, reached } from './link.svelte'
import type { Notice } from './notice'

// Live events: one connection for the whole page. Events are hints that something has changed;
// listeners read again what they show, at most four times a second all together.

export const live = $state({ paused: false })

type Listener = (of: Set<string>) => void

const listeners = new Set<Listener>()
const everything = 'everything'
/** Marks changes that the reader waits for. */
export const atOnce = 'at once'
let changed = new Set<string>()
let source: EventSource | undefined
let wanted = false // somebody has connected
let timer: ReturnType<typeof setTimeout> | undefined
let again: ReturnType<typeof setTimeout> | undefined
let wait = 1000

const flushEvery = 250
/** How often a page reads again without an event: other nodes write too. */
const readEvery = 15_000

export function listen(f: Listener): () => void {
  listeners.add(f)
  return () => listeners.delete(f)
}

/** Whether a set of changes may concern a run. */
export const concerns = (of: Set<string>, run: string) => of.has(everything) || of.has(run)

function mark(run: string) {
  changed.add(run)
  timer ??= setTimeout(() => {
    timer = undefined
    if (live.paused) return
    const all = changed
    changed = new Set()
    for (const f of listeners) f(all)
  }, flushEvery)
}

/** Lets every part of the page read again soon. */
const touch = () => mark(everything)

/** Lets every part of the page read again now, also while it is paused: the reader wants it. */
export function refresh() {
  // What the reader leaves by this act is gone by then.
  void tick().then(() => {
    for (const f of listeners) f(new Set([everything, atOnce]))
  })
}

export function pause(on: boolean) {
  live.paused = on
  if (!on) refresh()
}

export function connect() {
  wanted = true
  clearTimeout(again)
  if (source || document.hidden) return
  source = new EventSource(api('events'))
  source.onopen = () => {
    if (!link.up) touch()
    reached()
    wait = 1000
  }
  source.addEventListener('notice', (e) => mark((JSON.parse(e.data) as Notice).run_id))
  source.addEventListener('reset', touch)
  source.onerror = () => {
    if (source?.readyState !== EventSource.CLOSED) {
      lost() // it connects again by itself
      return
    }
    source = undefined // the server has refused it: it may have no events, or want a login
    again = setTimeout(connect, wait)
    wait = Math.min(wait * 2, 60_000)
  }
}

function disconnect() {
  source?.close()
  source = undefined
}

/** Begins anew, after a login. */
export function reconnect() {
  disconnect()
  wait = 1000
  connect()
  refresh()
}

document.addEventListener('visibilitychange', () => {
  if (document.hidden) disconnect()
  else if (wanted) reconnect()
})

setInterval(() => {
  if (!document.hidden) touch()
}, readEvery)
