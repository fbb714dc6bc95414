export interface ErrorGroup<T> {
  error: string
  items: T[]
}

/** Things with the same error, the most frequent one first. */
export function groupByError<T extends { error: string }>(all: T[]): ErrorGroup<T>[] {
  const groups = new Map<string, T[]>()
  for (const one of all) {
    const group = groups.get(one.error)
    if (group) group.push(one)
    else groups.set(one.error, [one])
  }
  return [...groups].map(([error, items]) => ({ error, items })).sort((a, b) => b.items.length - a.items.length)
}
