import type { AuditLine } from './line.ts'
import type { AuditRow } from './tables.ts'

/** A line with the time of its write. */
export type TimedLine = AuditLine & { readonly at: number }

/** A line as a row of the table. */
export function toRow(line: TimedLine, id: number): AuditRow {
  const { at, who, route, tool, task, what, outcome, status, code } = line
  const { requestId, sessionId, runId, callId } = line
  return {
    id,
    at,
    who,
    route: route ?? null,
    tool: tool ?? null,
    task: task ?? null,
    what: JSON.stringify(what),
    outcome,
    status: status ?? null,
    code: code ?? null,
    request_id: requestId ?? null,
    session_id: sessionId ?? null,
    run_id: runId ?? null,
    call_id: callId ?? null,
    once: callId === undefined ? null : `${runId}/${callId}/${outcome}`,
  }
}

/** A row as operators read it. The JSON leaves out the columns that are null. */
export function fromRow(row: AuditRow) {
  const what: unknown = JSON.parse(row.what)
  return {
    id: row.id,
    time: new Date(row.at).toISOString(),
    who: row.who,
    route: row.route ?? undefined,
    tool: row.tool ?? undefined,
    task: row.task ?? undefined,
    what,
    outcome: row.outcome,
    status: row.status ?? undefined,
    code: row.code ?? undefined,
    requestId: row.request_id ?? undefined,
    sessionId: row.session_id ?? undefined,
    runId: row.run_id ?? undefined,
    callId: row.call_id ?? undefined,
  }
}
