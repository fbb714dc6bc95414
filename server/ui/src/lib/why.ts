import { distance } from './format'

/** The reason of a run for people who look at the page: with distances instead of times, and
 * without the commands that show more. */
export const readable = (why: string, now: number) =>
  why
    .replace(/, which \S+ \w+ \w+ shows/, '')
    .replace(/,? until (\d{4}-\d\d-\d\dT[\d:.]+Z)/, (_, t: string) => `; this ends ${distance(t, now)}`)
    .replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, (t) => new Date(t).toLocaleString())
