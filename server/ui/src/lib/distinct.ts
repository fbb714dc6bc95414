/** Each item once, by its key. A page that was read later may begin with what the one before it had. */
export function distinct<T>(all: T[], key: (item: T) => unknown): T[] {
  const seen = new Set<unknown>()
  return all.filter((item) => !seen.has(key(item)) && seen.add(key(item)))
}
