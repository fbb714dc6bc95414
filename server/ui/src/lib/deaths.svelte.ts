import { get, request } from './api'
import { refresh } from './live.svelte'
import type { Engine, EngineList, Killed, Run, RunList } from './types'

/** A worker that was killed from this page. Times are of this machine, which the server is on, too. */
export interface Death {
  pid: number
  at: number
  next?: Engine // the one that goes on
  back?: number // when it was there
  runs: Run[] // that it has taken over
}

const key = 'perdure.deaths'

/** The workers that were killed in this tab, the last one at the end. */
export const deaths = $state<{ all: Death[]; shown: boolean }>({ all: remembered(), shown: false })

function remembered(): Death[] {
  try {
    return (JSON.parse(sessionStorage.getItem(key) ?? '[]') as Death[]).filter((d) => d.back)
  } catch {
    return []
  }
}

/** Kills the worker, and follows what becomes of its runs. */
export async function kill() {
  const { pid } = await request<Killed>('POST', 'process/kill')
  const n = deaths.all.push({ pid, at: Date.now(), runs: [] })
  deaths.shown = true
  void follow(deaths.all[n - 1]!)
}

const lookEvery = 200

async function follow(death: Death) {
  for (; !death.next; await new Promise((done) => setTimeout(done, lookEvery))) {
    try {
      const { items } = await get<EngineList>('workers')
      const next = items.find((e) => e.alive && e.pid !== death.pid)
      if (!next) continue
      const open = await get<RunList>('executions?open=true&limit=200')
      death.runs = open.items.filter((r) => r.crashes && r.status === 'RUNNING')
      death.back = Date.now()
      death.next = next
    } catch {
      // nobody is there yet
    }
  }
  sessionStorage.setItem(key, JSON.stringify(deaths.all.slice(-20)))
  refresh()
}

/** The deaths of workers while a run went on. */
export const duringRun = (run: { created: string; ended?: string }) =>
  deaths.all.filter((d) => d.at > Date.parse(run.created) && d.at < (run.ended ? Date.parse(run.ended) : Infinity))
