import { useCallback, useEffect, useState } from 'react'
import { type OracleError, toOracleError } from '../core/error.ts'
import type { Overrides, TurnUsage } from '../core/records.ts'
import { useAsk } from './hooks.ts'

/** One step of a run: a request to the model, a tool, an approval, a takeover and whatever else the trace tells. */
export interface TimelineStep {
  readonly step: number
  readonly at: string
  readonly ms?: number
  readonly kind: string
  /** The step of a sub-agent: the call that sent it. */
  readonly within?: string
  readonly [field: string]: unknown
}

/** A run, step by step. */
export interface Timeline {
  readonly runId: string
  readonly sessionId: string
  readonly status: string
  readonly startedAt: string
  readonly endedAt?: string | null
  readonly usage?: TurnUsage | null
  readonly steps: readonly TimelineStep[]
}

/** What `useTimeline` returns. */
export interface TimelineResult {
  readonly timeline: Timeline | undefined
  readonly isLoading: boolean
  readonly error: OracleError | undefined
  readonly refetch: () => Promise<void>
}

/** What happened in a run, as its trace tells it. */
export function useTimeline(
  oracleDid: string,
  runId: string,
  overrides?: Overrides,
): TimelineResult {
  const ask = useAsk(oracleDid, overrides)
  const [known, setKnown] = useState<{ readonly runId: string; readonly timeline: Timeline }>()
  const [error, setError] = useState<OracleError>()
  const refetch = useCallback(async () => {
    if (!runId) return
    try {
      const timeline = await ask<Timeline>(`/runs/${encodeURIComponent(runId)}/trace`)
      setKnown({ runId, timeline })
      setError(undefined)
    } catch (thrown) {
      setError(toOracleError(thrown))
    }
  }, [ask, runId])
  useEffect(() => void refetch(), [refetch])
  const timeline = known?.runId === runId ? known.timeline : undefined
  return { timeline, isLoading: runId !== '' && !timeline && !error, error, refetch }
}
