import type { AnyRoute } from '../../../plugin.ts'

/** The keys of the routes of sessions, messages and runs. */
export const turnRouteKeys = [
  'POST /sessions',
  'GET /sessions',
  'DELETE /sessions/:id',
  'POST /sessions/:id/capabilities',
  'PATCH /sessions/:id',
  'POST /sessions/:id/fork',
  'GET /sessions/:id/branches',
  'GET /sessions/:id/state',
  'GET /sessions/:id/messages',
  'GET /sessions/:id/run',
  'GET /sessions/:id/runs',
  'GET /messages/:sessionId',
  'POST /messages/:sessionId',
  'POST /messages/abort',
  'GET /runs',
  'GET /runs/:runId',
  'GET /runs/:runId/trace',
  'POST /runs/:runId/retry',
  'POST /runs/:runId/resume',
  'POST /runs/:runId/tool-results',
] as const

/** Routes whose statements find out on PostgreSQL whether a token of their caller was revoked: see `Proof`. */
export const provesLaterKeys: readonly string[] = ['POST /sessions', 'POST /messages/:sessionId']

/** Routes of users that the operator may call too. */
export const operatorsTooKeys: readonly string[] = [
  'GET /runs/:runId/trace',
  'GET /sessions/:id/state',
  'GET /sessions/:id/prompt',
]

/** A route for each of the keys. */
export type TurnRoutes = Readonly<Record<(typeof turnRouteKeys)[number], AnyRoute>>
