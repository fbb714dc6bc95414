import { tick } from 'svelte'
import { root } from './api'

/** Where the page is: the path below the prefix as it is in the address, the query, and the place in the browser's history. */
export const place = $state(read())

function read() {
  return {
    path: location.pathname.slice(root.pathname.length),
    query: new URLSearchParams(location.search),
    entry: (history.state as { entry?: string } | null)?.entry ?? '',
  }
}

/** How far each place in the history is scrolled. A page begins at its top, Back restores it. */
const scrolls = new Map<string, number>()
history.scrollRestoration = 'manual'

let restoring: (() => void) | undefined // ends it
addEventListener('scroll', () => {
  if (!restoring) scrolls.set(place.entry, scrollY)
})

/** Goes to an address below the prefix, such as "runs?status=FAILED". */
export function go(to: string, replace = false) {
  const url = new URL(to, root)
  if (replace) history.replaceState(history.state, '', url)
  else {
    if (!restoring) scrolls.set(place.entry, scrollY)
    restoring?.()
    history.pushState({ entry: String(performance.timeOrigin + performance.now()) }, '', url)
  }
  Object.assign(place, read())
  if (!replace) scrollTo(0, 0)
}

/** Sets parameters of the address; an empty value takes one away. */
export function setQuery(values: Record<string, string>, replace = false) {
  const query = new URLSearchParams(place.query)
  for (const [name, value] of Object.entries(values)) {
    if (value) query.set(name, value)
    else query.delete(name)
  }
  const text = query.toString()
  go(place.path + (text ? '?' + text : ''), replace)
}

/** Follows links within the page without loading it anew. */
export function follow(e: MouseEvent) {
  if (e.defaultPrevented || e.button !== 0 || e.ctrlKey || e.metaKey || e.shiftKey || e.altKey) return
  const a = (e.target as Element).closest('a')
  if (!a || a.target || a.hasAttribute('download') || a.dataset.whole !== undefined) return
  const url = new URL(a.href)
  if (url.origin !== root.origin || !url.pathname.startsWith(root.pathname)) return
  if (url.pathname === location.pathname && url.search === location.search && url.hash) return
  e.preventDefault()
  go(url.href)
}

addEventListener('popstate', () => {
  restoring?.()
  Object.assign(place, read())
  restore(scrolls.get(place.entry) ?? 0)
})

const byReader = ['wheel', 'touchstart', 'pointerdown', 'keydown']

/** Scrolls to where the reader was as soon as the page is long enough, unless the reader scrolls. */
function restore(at: number) {
  const watch = new ResizeObserver(() => {
    scrollTo(0, at)
    if (Math.abs(scrollY - at) < 2) restoring?.()
  })
  const end = () => {
    watch.disconnect()
    restoring = undefined
    for (const e of byReader) removeEventListener(e, end, true)
  }
  restoring = end
  for (const e of byReader) addEventListener(e, end, true)
  void tick().then(() => restoring === end && watch.observe(document.body))
}
