import { root } from './api'

/** Where the page is: the path below the prefix, and the query. */
export const place = $state(read())

function read() {
  return {
    path: decodeURI(location.pathname.slice(root.pathname.length)),
    query: new URLSearchParams(location.search),
  }
}

const scrolls = new Map<string, number>()

/** Goes to an address below the prefix, such as "runs?status=FAILED". */
export function go(to: string, replace = false) {
  const url = new URL(to, root)
  if (!replace) scrolls.set(location.href, scrollY)
  history[replace ? 'replaceState' : 'pushState'](null, '', url)
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
  go(encodeURI(place.path) + (text ? '?' + text : ''), replace)
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
  Object.assign(place, read())
  const at = scrolls.get(location.href)
  if (at !== undefined) setTimeout(() => scrollTo(0, at), 50)
})
