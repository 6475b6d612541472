import type { AnyRoute } from '../../../plugin.ts'

/** The keys of the routes of sessions, messages and runs. */
export const turnRouteKeys = [
  'POST /sessions',
  'GET /sessions',
  'DELETE /sessions/:id',
  'POST /sessions/:id/capabilities',
  'GET /sessions/:id/messages',
  'GET /sessions/:id/run',
  'GET /messages/:sessionId',
  'POST /messages/:sessionId',
  'POST /messages/abort',
  'GET /runs',
  'GET /runs/:runId',
  'POST /runs/:runId/retry',
  'POST /runs/:runId/resume',
  'POST /runs/:runId/tool-results',
] as const

/** A route for each of the keys. */
export type TurnRoutes = Readonly<Record<(typeof turnRouteKeys)[number], AnyRoute>>
