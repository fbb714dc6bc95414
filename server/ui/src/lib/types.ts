// Made from the document of the API by go test ./server/ui -update.

export interface Act {
  action: string
  at: string
  by: string
  from: string
  path: string
  role: string
  status: number
}

export interface ActBody {
  compensate?: boolean
  input?: unknown
  output?: unknown
  reason?: string
  step?: string
}

export interface Acted {
  new: boolean
  not_undone?: string[]
  run_id: string
  workflow_id: string
}

export interface Acts {
  forgotten: number
  items: Act[]
  since: string
}

export interface Alert {
  at?: string
  by?: string
  causes?: string[]
  in_a_row?: number
  longest?: string
  longest_wait?: string
  off?: boolean
  reason?: string
  statuses?: string[]
  times?: number
  to?: string[]
  within?: string
  workflow: string
}

export interface AlertList {
  items: Alert[]
  next?: string
}

export interface AlertRule {
  causes?: string[]
  in_a_row?: number
  longest?: string
  longest_wait?: string
  off?: boolean
  statuses?: string[]
  times?: number
  to?: string[]
  within?: string
}

export interface AlertTest {
  run_id: string
  to: string
}

export interface AlertTestList {
  items: AlertTest[]
  next?: string
}

export interface Answer {
  data?: unknown
  extend?: string
  reason?: string
  token: string
}

export interface Approval {
  age: string
  asked: string
  decisions?: Decided[]
  due?: string
  form?: unknown
  key: string
  of?: number
  quorum: number
  roles?: string[]
  run_id: string
  title?: string
  workflow: string
  workflow_id: string
}

export interface ApprovalList {
  items: Approval[]
  next?: string
}

export interface Batch {
  created: string
  done: number
  ended?: string
  errors?: BatchItem[]
  expected: number
  failed: number
  id: string
  matched: number
  more?: boolean
  problem?: string
  run_id: string
  skipped: number
  skips?: BatchItem[]
  spec: BatchSpec
  status: string
  stop?: BatchHalt
}

export interface BatchHalt {
  at: string
  by?: string
  reason?: string
}

export interface BatchItem {
  code: string
  error: string
  run_id: string
}

export interface BatchList {
  items: Batch[]
  next?: string
}

export interface BatchSpec {
  filter?: string
  order: Order
  rate?: number
  runs?: string[]
}

export interface Bounds {
  burst?: number
  concurrency?: number
  per_key?: number
  rate?: string
  slots?: number
}

export interface Build {
  build: string
  engines: number[]
  failed: number
  may_go: boolean
  open: number
  why: string
  workflow: string
}

export interface BusRegistration {
  effect: string
  field?: string
  name?: string
  type: string
}

export interface BusRegistrationList {
  items: BusRegistration[]
  next?: string
}

export interface ByToken {
  data?: unknown
  reason?: string
  token: string
}

export interface Callback {
  callback: string
  due?: string
  run_id: string
  state: string
}

export interface Caller {
  kills?: boolean
  name: string
  role: string
  session: boolean
}

export interface Carried {
  approved: boolean
  asked?: string
  by: string
  due?: string
  expires: string
  form?: unknown
  key: string
  reason?: string
  role?: string
  state: string
  title?: string
  why?: string
  workflow?: string
}

export interface Check {
  at_least?: boolean
  count: number
  evidence: string
  health: string
  ids: string[]
  mend: string[]
  name: string
}

export interface CheckList {
  items: Check[]
  next?: string
}

export interface Choice {
  choice: string
  data?: unknown
  reason?: string
}

export interface Chunk {
  at: string
  attempt?: number
  data?: unknown
  offset: number
  part: number
  void?: boolean
}

export interface Configuration {
  began: string
  build?: string
  go: string
  keys: ConfigurationKey[]
  system: string
  version: string
}

export interface ConfigurationKey {
  about?: string
  default: string
  from: string
  is_changed: boolean
  name: string
  value: string
  variable?: string
}

export interface Contract {
  accepts?: EventType[]
  accepts_any: boolean
  emits?: EventType[]
  emits_any: boolean
  initial?: string[]
  uri?: string
}

export interface Count {
  count: number
  more?: boolean
}

export interface Database {
  bytes: number
  driver: string
  durability: string
  engines: Engine[]
  identity: string
  outbox: number
  runs: number
  schema: number
  store: string
  unrouted: number
}

export interface DeadLetter {
  code?: string
  created_at?: string
  damaged?: string
  error: string
  handled_at?: string
  id?: string
  input?: unknown
  note?: string
  pattern?: string
  retried_at?: string
  retries?: number
  run_id: string
  status: string
  step?: string
  type?: string
  workflow: string
  workflow_id: string
}

export interface DeadLetterList {
  items: DeadLetter[]
  next?: string
}

export interface DeadLetters {
  entries: number
}

export interface Decide {
  approved: boolean
  data?: unknown
  for?: string
  reason?: string
  role?: string
}

export interface Decided {
  approved: boolean
  asserted_by?: string
  at: string
  by: string
  data?: unknown
  reason?: string
  role?: string
  source: string
}

export interface Defect {
  at: string
  message: string
}

export interface Definition {
  contracts?: Contract[]
  description?: string
  here: boolean
  id_field?: string
  input?: unknown
  listeners?: number
  mode?: string
  name: string
  pattern: string
  steps?: Node[]
  timeout?: string
  trigger?: string
  version?: string
}

export interface DefinitionDiagram {
  first: string
  on_error?: string[]
  states: DefinitionState[]
}

export interface DefinitionEdge {
  label?: string
  to?: string
}

export interface DefinitionGraph {
  nodes: DefinitionNode[]
}

export interface DefinitionList {
  items: Definition[]
  next?: string
}

export interface DefinitionNode {
  after?: string[]
  name: string
  order?: number
  undo?: boolean
  when?: string
}

export interface DefinitionState {
  name: string
  to?: DefinitionEdge[]
  undo?: boolean
}

export interface Deleted {
  deleted: string
}

export interface DeliveredItem {
  delivery?: Delivery
  problem?: Problem
}

export interface DeliveredItemList {
  items: DeliveredItem[]
  next?: string
}

export interface Delivery {
  duplicate?: boolean
  not_delivered?: boolean
  number?: number
  run_id?: string
  status?: string
  unrouted?: boolean
}

export interface Done {
  done: boolean
}

export interface Drain {
  runs: number
  steps: number
  until: string
}

export interface Engine {
  alive: boolean
  build: string
  drain?: Drain
  host: string
  id: number
  lease_s: number
  pid: number
  runs: number
  seen?: string
  since: string
  slots: number
  until?: string
  workflows: string[]
}

export interface EngineList {
  items: Engine[]
  next?: string
}

export interface Entry {
  action?: string
  at: string
  attempt?: number
  build?: string
  by?: string
  choices?: string[]
  data?: unknown
  due?: string
  engine?: number
  error?: Error
  event?: string
  kind: string
  message?: number
  operation?: string
  other?: string
  outcome?: string
  part?: number
  pattern: string
  reason?: string
  run_id: string
  seq: number
  skipped?: boolean
  status?: string
  stream?: string
  took_ms?: number
  version?: number
  void?: boolean
  workflow_id: string
}

export interface EntryList {
  items: Entry[]
  next?: string
}

export interface Error {
  code?: string
  message: string
}

export interface ErrorGroup {
  at?: string
  code?: string
  count: number
  dead_letter?: string
  filter?: string
  message: string
  run_id?: string
  workflows: string[]
}

export interface ErrorGroups {
  items: ErrorGroup[]
  left?: number
  looked: number
  more?: boolean
}

export interface EventCount {
  count: number
  type: string
}

export interface EventCountList {
  items: EventCount[]
  next?: string
}

export interface EventType {
  checked: boolean
  schema?: unknown
  type: string
}

export interface Exchange {
  at: string
  kind: string
  name: string
  outcome?: string
  sent: boolean
  seq: number
  with?: string
}

export interface Execution {
  attributes?: Record<string, string>
  build?: string
  by?: string
  cause?: string
  crashes?: number
  created: string
  cursor?: string
  ended?: string
  engine?: number
  entries: number
  error?: Error
  found: boolean
  goes_on_as?: Origin
  headers?: Record<string, string>
  is_success: boolean
  is_terminal: boolean
  messages?: number
  mode?: string
  origin?: Origin
  output?: unknown
  parent?: string
  pattern: string
  payload?: unknown
  predecessor?: string
  published?: Record<string, unknown>
  reason?: string
  run_id: string
  status: string
  steps?: Step[]
  streams?: Record<string, number>
  successor?: string
  undoable?: string[]
  unread?: Message[]
  unused?: string[]
  versions?: Record<string, number>
  waits?: Wait[]
  wake?: string
  why?: string
  workflow: string
  workflow_id: string
}

export interface Failing {
  error: string
  run_id: string
  status: string
  step?: string
  workflow: string
  workflow_id: string
}

export interface Health {
  engine?: string
  status: string
  store?: string
}

export interface IDs {
  ids: string[]
}

export interface Key {
  by?: string
  id: string
  made: string
  reason?: string
  signs: boolean
}

export interface KeyList {
  items: Key[]
  next?: string
}

export interface Killed {
  pid: number
}

export interface Limit {
  at?: string
  burst?: number
  by?: string
  concurrency?: number
  name: string
  per_key?: number
  rate?: string
  reason?: string
  slots?: number
  uses?: LimitUse[]
}

export interface LimitList {
  items: Limit[]
  next?: string
}

export interface LimitRun {
  cause?: string
  crashes?: number
  created: string
  cursor?: string
  due?: string
  ended?: string
  engine?: number
  error?: string
  held: boolean
  key?: string
  messages?: number
  pattern: string
  place?: number
  run_id: string
  since: string
  status: string
  wake?: string
  workflow: string
  workflow_id: string
}

export interface LimitRunList {
  items: LimitRun[]
  next?: string
}

export interface LimitUse {
  key?: string
  of: string
  slots?: number
  used: number
  waiting: number
}

export interface LogLine {
  at: string
  attempt: number
  attrs?: unknown
  level: string
  message: string
  omitted?: number
  seq: number
  step: string
}

export interface LogLineList {
  items: LogLine[]
  next?: string
}

export interface Loop {
  engine: number
  every?: number
  last: string
  name: string
  reason?: string
  state: string
}

export interface LoopList {
  items: Loop[]
  next?: string
}

export interface Marker {
  change: string
  failed: number
  may_go: boolean
  open: number
  runs: string[]
  undecided: number
  version: number
  why: string
  workflow: string
}

export interface Message {
  data?: unknown
  id?: string
  name: string
  number: number
  sent: string
  to?: string
  until?: string
}

export interface MessageList {
  items: Message[]
  next?: string
}

export interface Metrics {
  compensation: ObserveCompensation
  dlq: DeadLetters
  executions: ObserveExecutions
  patterns: Record<string, ObserveTotal>
  steps: ObserveSteps
  uptime: string
}

export interface Node {
  after?: string[]
  name: string
  to?: string[]
}

export interface Note {
  reason?: string
}

export interface ObserveCompensation {
  failed: number
  total: number
}

export interface ObserveExecutions {
  active: number
  completed: number
  failed: number
  total: number
}

export interface ObserveSteps {
  failed: number
  retried: number
  total: number
}

export interface ObserveTotal {
  completed: number
  failed: number
  total: number
}

export interface Orchestrator {
  accepts: string[]
  source: string
}

export interface OrchestratorList {
  items: Orchestrator[]
  next?: string
}

export interface Order {
  action: string
  by?: string
  compensate?: boolean
  input?: unknown
  output?: unknown
  reason?: string
  step?: string
}

export interface Origin {
  action: string
  by?: string
  new_input?: boolean
  reason?: string
  run_id: string
  step?: string
  undoes?: string
}

export interface Outcome {
  cause?: string
  crashes?: number
  created: string
  cursor?: string
  ended?: string
  engine?: number
  error?: Error
  messages?: number
  output?: unknown
  pattern: string
  run_id: string
  status: string
  wake?: string
  workflow: string
  workflow_id: string
}

export interface Parked {
  cause?: string
  crashes?: number
  created: string
  cursor?: string
  ended?: string
  engine?: number
  error?: string
  messages?: number
  pattern: string
  questions?: Wait[]
  run_id: string
  status: string
  wake?: string
  why: string
  workflow: string
  workflow_id: string
}

export interface ParkedList {
  items: Parked[]
  next?: string
}

export interface Pause {
  at: string
  by?: string
  reason?: string
  workflow: string
}

export interface PauseList {
  items: Pause[]
  next?: string
}

export interface Period {
  from: string
  to: string
}

export interface Plan {
  count: number
  filter?: string
  first: Run[]
  left_out?: number
  more?: boolean
  statuses: Record<string, number>
  unknown?: string[]
}

export interface Preview {
  again: string[]
  children: string[]
  inherited: string[]
  kept: string[]
  left: string[]
  renewed: string[]
  run_id: string
}

export interface Problem {
  code: string
  detail: string
  errors?: Defect[]
  hint?: string
  status: number
  title: string
  type: string
}

export interface Reason {
  run_id: string
  status: string
  waits: Wait[]
  why: string
  workflow_id: string
}

export interface Receipt {
  approved: number
  key: string
  quorum: number
  rejected: number
  run_id: string
  status: string
}

export interface Report {
  dry_run?: boolean
  ended?: string
  error?: string
  layers?: string[][]
  pattern: string
  phase?: string
  run_id: string
  started?: string
  status: string
  steps: ReportStep[]
  successor?: string
  took_ms: number
  triggered_by?: string
  workflow: string
  workflow_id: string
}

export interface ReportStep {
  attempts: number
  ended?: string
  error?: string
  started?: string
  status: string
  step: string
  took_ms: number
}

export interface Result {
  cause?: string
  crashes?: number
  created: string
  cursor?: string
  ended?: string
  engine?: number
  error?: Error
  found: boolean
  is_success: boolean
  is_terminal: boolean
  messages?: number
  output?: unknown
  pattern: string
  run_id: string
  status: string
  wake?: string
  workflow: string
  workflow_id: string
}

export interface Run {
  cause?: string
  crashes?: number
  created: string
  cursor?: string
  ended?: string
  engine?: number
  error?: string
  messages?: number
  pattern: string
  run_id: string
  status: string
  wake?: string
  workflow: string
  workflow_id: string
}

export interface RunGraph {
  diagram?: DefinitionDiagram
  earlier?: number
  exchanges?: Exchange[]
  graph?: DefinitionGraph
  layers?: string[][]
  mermaid?: string
  root_cause?: Failing[]
  steps: Step[]
  visited?: string[]
  workflow: string
}

export interface RunList {
  items: Run[]
  next?: string
}

export interface Schedule {
  backfills?: ScheduleFilling[]
  by?: ScheduleNote
  changed: string
  created: string
  declared?: ScheduleSpec
  left?: number
  missed: number
  misses?: ScheduleMiss[]
  name: string
  next?: ScheduleTime
  open?: ScheduleRun
  paused?: ScheduleHalt
  previous?: ScheduleRun
  problem?: string
  recent?: ScheduleRun[]
  revision: number
  spec: ScheduleSpec
  started: number
  status: string
  success?: ScheduleRun
}

export interface ScheduleFilling {
  by?: string
  done?: string
  from: string
  started: number
  to: string
  why?: string
}

export interface ScheduleHalt {
  at: string
  by?: string
  why?: string
}

export interface ScheduleList {
  items: Schedule[]
  next?: string
}

export interface ScheduleMiss {
  from: string
  more?: boolean
  n: number
  to: string
  why: string
}

export interface ScheduleNote {
  by?: string
  why?: string
}

export interface SchedulePlanned {
  at: string
  id: string
  note?: string
  started: boolean
}

export interface SchedulePlannedList {
  items: SchedulePlanned[]
  next?: string
}

export interface ScheduleRun {
  at: string
  cause: string
  ended?: string
  error?: string
  id: string
  note?: string
  run_id: string
  status?: string
  time: string
}

export interface ScheduleSpec {
  after?: string
  attributes?: Record<string, string>
  catch_up?: string
  cron?: string
  description?: string
  every?: string
  headers?: Record<string, string>
  initial_delay?: string
  input?: unknown
  jitter?: string
  overlap?: string
  paused?: string
  times?: number
  window?: string
  workflow: string
  zone?: string
}

export interface ScheduleTime {
  at: string
  note?: string
}

export interface ScheduleTimeList {
  items: ScheduleTime[]
  next?: string
}

export interface Shown {
  token: string
}

export interface SignalItem {
  id: string
  key?: string
  payload?: unknown
}

export interface Signals {
  items: SignalItem[]
}

export interface StandingItem {
  found: boolean
  id: string
  is_success: boolean
  is_terminal: boolean
  run?: Outcome
}

export interface StandingItemList {
  items: StandingItem[]
  next?: string
}

export interface StartBody {
  at?: string
  attributes?: Record<string, string>
  dedup?: string
  delay?: string
  force?: boolean
  headers?: Record<string, string>
  id?: string
  input?: unknown
}

export interface Started {
  new: boolean
  run_id: string
  workflow_id: string
}

export interface StartedID {
  workflow_id: string
}

export interface StartedItem {
  problem?: Problem
  run?: Started
}

export interface StartedItemList {
  items: StartedItem[]
  next?: string
}

export interface StartedRun {
  error?: Error
  new: boolean
  output?: unknown
  run_id: string
  status?: string
  workflow_id: string
}

export interface Starts {
  items: StartBody[]
}

export interface StatusCount {
  more?: boolean
  runs: number
  status: string
}

export interface StatusCountList {
  items: StatusCount[]
  next?: string
}

export interface Step {
  attempts: number
  by?: string
  due?: string
  ended?: string
  error?: Error
  path: string
  reason?: string
  started?: string
  status: string
}

export interface StreamPage {
  ended: boolean
  items: Chunk[]
  next: number
  run_id: string
}

export interface Topology {
  diagram?: DefinitionDiagram
  graph?: DefinitionGraph
  layers?: string[][]
  mermaid?: string
  workflow: string
}

export interface Versions {
  builds: Build[]
  markers: Marker[]
  partial?: boolean
  partial_failed?: boolean
}

export interface Wait {
  child?: string
  choices?: string[]
  due?: string
  kind: string
  path: string
  reason?: string
  since: string
}

export interface WaitList {
  items: Wait[]
  next?: string
}
