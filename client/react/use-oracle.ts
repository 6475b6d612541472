import { useState } from 'react'
import type { OracleError } from '../core/error.ts'
import { useClient } from './provider.ts'
import type {
  AuthzConfig,
  Capabilities,
  Capability,
  ModelInfo,
  OracleConfig,
  Overrides,
} from '../core/records.ts'
import { resolving, type ChatAddress } from '../core/client.ts'
import { useLate } from './use-late.ts'
import { useStore } from './use-store.ts'

/** What `useOraclesConfig` returns. */
export interface OraclesConfigResult {
  readonly config: {
    readonly apiUrl: string | null
    readonly socketUrl: string | null
    readonly model: string | null
    readonly price: string | null
    readonly authConfig: AuthzConfig | undefined
  }
  readonly isLoading: boolean
  readonly isReady: boolean
  /** Nothing that could be asked answers now: this is what was known last, and it is asked for again. */
  readonly isStale: boolean
  readonly error: OracleError | null
}

/** Where an oracle answers, its model and its price, found by its DID. */
export function useOraclesConfig(oracleDid: string, overrides?: Overrides): OraclesConfigResult {
  const { data, isLoading, error } = useStore(useClient().config(oracleDid, overrides))
  // Where a page names the address, what the oracle says of itself comes behind it, and nobody waits for that.
  const facts = useLate(
    [oracleDid, overrides] as const,
    {} as Partial<OracleConfig>,
    ['read'],
    resolving,
  )
  const { apiUrl, wsUrl, model, price, authConfig, isStale = false } = { ...facts, ...data }
  return {
    config: {
      apiUrl: apiUrl ?? null,
      socketUrl: wsUrl ?? null,
      model: model ?? null,
      price: price ?? null,
      authConfig,
    },
    isLoading,
    isReady: !!data,
    isStale,
    error,
  }
}

/** What `useModels` returns. */
export interface UseModelsResult {
  readonly models: readonly ModelInfo[]
  readonly defaultModelId: string | undefined
  readonly defaultModel: ModelInfo | undefined
  /** The model of the turns to come. */
  readonly model: string | undefined
  /** Chooses the model of the turns to come; without a name the oracle chooses. */
  readonly setModel: (id: string | undefined) => void
  readonly isLoading: boolean
  readonly error: OracleError | null
  readonly refetch: () => void
}

/** The models that an oracle offers, and which of them answers. */
export function useModels(oracleDid: string, overrides?: Overrides): UseModelsResult {
  const client = useClient()
  const resource = client.models(oracleDid, overrides)
  const { data, isLoading, error } = useStore(resource)
  const [, render] = useState(0)
  const { models = [], default: defaultModelId } = data ?? {}
  return {
    models,
    defaultModelId,
    defaultModel: models.find(({ id }) => id === defaultModelId),
    model: client.chosenModel(oracleDid) ?? defaultModelId,
    setModel: (id) => (client.useModel(oracleDid, id), render((count) => count + 1)),
    isLoading,
    error,
    refetch: () => void resource.refetch().catch(() => {}),
  }
}

/** What `useCapabilities` returns. */
export interface CapabilitiesResult {
  readonly plugins: readonly Capability[]
  /** How many bytes of the prompt say who the agent is, once that is known. */
  readonly instructionsBytes?: number
  readonly isLoading: boolean
  readonly error: OracleError | null
  /** Loads plugins into the session without asking the agent. */
  readonly load: (...names: string[]) => Promise<void>
  readonly refetch: () => Promise<void>
}

/** One list for every rendering without data, so that an effect on `plugins` does not run again. */
const nothing: Capabilities = { plugins: [] }

/** What an oracle can do, and in a session, what of it is loaded. */
export function useCapabilities(
  oracleDid: string,
  { sessionId = '', overrides }: Partial<Pick<ChatAddress, 'sessionId' | 'overrides'>> = {},
): CapabilitiesResult {
  const client = useClient()
  const resource = client.capabilities({ oracleDid, sessionId, overrides })
  const { data, isLoading, error } = useStore(resource)
  const refetch = async () => void (await resource.refetch())
  return {
    ...(data ?? nothing),
    isLoading,
    error,
    refetch,
    async load(...names) {
      await client.request(
        oracleDid,
        `/sessions/${sessionId}/capabilities`,
        { body: { names } },
        overrides,
      )
      await refetch()
    },
  }
}
