import type { Act } from './act'
import { path } from './api'
import type { Execution } from './types'

export interface Action {
  name: string
  title: string
  about: string
  danger?: boolean
  /** It begins a new run, and can say before what that keeps. */
  previews?: boolean
  /** The steps, timers or questions of which it takes one; none for an action on the run as a whole. */
  of?: { noun: string; all: (run: Execution) => string[] }
  /** The answers of which it takes one; if there are none, it takes any. */
  choices?: (run: Execution, of: string) => string[]
  /** Its field for JSON. */
  json?: string
  /** The new run may have another input. */
  input?: boolean
  /** Why it may undo what is done, and need not. */
  undo?: string
  /** Why it is not to be had for a run; empty if it is. */
  whyNot: (run: Execution) => string
}

/** What somebody has filled in. */
export interface Order {
  of: string
  choice: string
  json: string
  input: string // another input, as JSON; empty for none
  undo: boolean
}

const ended = (run: Execution) => (run.ended ? 'the run has ended' : '')
const open = (run: Execution) => (run.ended ? '' : 'the run goes on')
const failed = (run: Execution) =>
  open(run) || (run.is_success ? 'the run has ended well' : run.goes_on_as ? 'another run goes on from it' : '')

const allSteps = (run: Execution) => (run.steps ?? []).map((s) => s.path)
const waits = (kind: string) => (run: Execution) =>
  (run.waits ?? []).filter((w) => w.kind === kind).map((w) => w.path)
const timers = waits('timer')
const questions = waits('decision')
/** Signals by which people decide have cards of their own. */
const signals = (run: Execution) =>
  waits('signal')(run)
    .filter((p) => !p.startsWith('Approve:'))
    .map((p) => p.replace(/#\d+$/, ''))
const failedSteps = (run: Execution) =>
  (run.steps ?? []).filter((s) => s.status === 'FAILED' || s.status === 'TIMED_OUT').map((s) => s.path)

/** What people do with runs, as the API and the command line name it. */
export const actions: Action[] = [
  {
    name: 'signal',
    title: 'Signal',
    about: 'Sends the run a message that its code may wait for.',
    json: 'Payload',
    whyNot: ended,
  },
  {
    name: 'decide',
    title: 'Answer',
    about: 'Answers a question that the run has for an operator. The run goes on with the answer.',
    of: { noun: 'Question', all: questions },
    choices: (run, of) => run.waits?.find((w) => w.kind === 'decision' && w.path === of)?.choices ?? [],
    json: 'Data that goes with the answer',
    whyNot: (run) => ended(run) || (questions(run).length ? '' : 'the run asks no operator'),
  },
  {
    name: 'timer',
    title: 'End a timer',
    about: 'The timer ends now, before its time, as cancelled. The code of the run decides what follows.',
    of: { noun: 'Timer', all: timers },
    whyNot: (run) => ended(run) || (timers(run).length ? '' : 'it waits for no timer'),
  },
  {
    name: 'suspend',
    title: 'Suspend',
    about: 'The run begins no step until it is resumed. Steps in flight end.',
    whyNot: (run) =>
      ended(run) || (['PENDING', 'RUNNING', 'WAITING'].includes(run.status) ? '' : 'it cannot be suspended in this state'),
  },
  {
    name: 'resume',
    title: 'Resume',
    about: 'The run goes on where it was suspended.',
    whyNot: (run) =>
      ended(run) || (['SUSPENDED', 'COMPENSATION_FAILED'].includes(run.status) ? '' : 'the run is not suspended'),
  },
  {
    name: 'cancel',
    title: 'Cancel',
    about: 'The run cleans up and ends as cancelled. Sagas and TCCs undo what they have done.',
    danger: true,
    undo: 'Undo the steps of a graph, too',
    whyNot: ended,
  },
  {
    name: 'terminate',
    title: 'Terminate',
    about: 'The run ends at once. Nothing is cleaned up, and nothing is undone: cancel does that.',
    danger: true,
    whyNot: ended,
  },
  {
    name: 'retry',
    title: 'Retry',
    about: 'A new run goes on where this one has failed. What is done stays done.',
    previews: true,
    input: true,
    whyNot: failed,
  },
  {
    name: 'skip',
    title: 'Skip',
    about: 'A new run goes on behind the failed step, which gets the output that you give.',
    previews: true,
    of: { noun: 'Step', all: failedSteps },
    json: 'Output of the step',
    whyNot: (run) => failed(run) || (failedSteps(run).length ? '' : 'no step has failed'),
  },
  {
    name: 'fork',
    title: 'Fork',
    about: 'A new run does a step again, and what came after it. What came before is kept.',
    previews: true,
    of: { noun: 'Step', all: allSteps },
    input: true,
    whyNot: (run) => open(run) || (allSteps(run).length ? '' : 'no step has begun'),
  },
  {
    name: 'compensate',
    title: 'Roll back',
    about: 'A new run undoes the steps of this one, the last one first.',
    danger: true,
    previews: true,
    whyNot: (run) => open(run) || (run.undoable?.length ? '' : 'it has nothing that can be undone'),
  },
]

/** The name of the signal that a run waits for, or an empty text. */
export const awaited = (run: Execution) => signals(run)[0] ?? ''

const parsed = (text: string): unknown => JSON.parse(text || 'null')

/** What carries out an order. It fails if a field for JSON has none. */
export function actOf(a: Action, run: Execution, o: Order): Act {
  const at = path`executions/${run.run_id}/`
  const cli = wordsOf(a, run, o)
  switch (a.name) {
    case 'signal':
      return { method: 'POST', path: at + path`signal/${o.of}`, body: parsed(o.json), cli }
    case 'decide':
      return {
        method: 'POST',
        path: at + path`decide/${o.of}`,
        body: { choice: o.choice, data: parsed(o.json) },
        cli,
        reason: 'body',
      }
    case 'timer':
      return { method: 'DELETE', path: at + path`timers/${o.of}`, reason: 'query' }
  }
  const body: Record<string, unknown> = {}
  if (a.of) body.step = o.of
  if (a.json) body.output = parsed(o.json)
  if (a.input && o.input) body.input = parsed(o.input)
  if (a.undo && o.undo) body.compensate = true
  return { method: 'POST', path: at + a.name, body, cli, reason: 'body' }
}

/** The words of the command that does the same. */
function wordsOf(a: Action, run: Execution, o: Order): string[] {
  const words = ['runs', a.name, run.run_id]
  if (a.of || a.name === 'signal') words.push(o.of)
  if (a.choices) words.push(o.choice)
  if (a.json) words.push('-i', o.json)
  if (a.input && o.input) words.push('-i', o.input)
  if (a.undo && o.undo) words.push('--compensate')
  return words
}
