// What the browser keeps for the reader. Without storage it counts until the page is left.

export function stored<T>(name: string, usual: T, fits: (v: unknown) => v is T): T {
  try {
    const v: unknown = JSON.parse(localStorage.getItem('perdure.' + name) ?? 'null')
    return fits(v) ? v : usual
  } catch {
    return usual
  }
}

/** Keeps a value; undefined takes it away. */
export function store(name: string, v: unknown) {
  try {
    if (v === undefined) localStorage.removeItem('perdure.' + name)
    else localStorage.setItem('perdure.' + name, JSON.stringify(v))
  } catch {
    // it is shown all the same
  }
}
