import type { KernelEnv } from '../manifest/kernel-env.ts'
import type { AnyRoute, Model } from '../plugin.ts'
import { type Conversations, conversationRouteKeys } from './agent/conversations.ts'
import { auditRouteKeys, auditRoutes } from './audit/routes.ts'
import { delegationRouteKeys, delegationRoutes } from './auth/delegation-routes.ts'
import type { Grantable } from './auth/grants/request.ts'
import { grantRouteKeys, grantRoutes } from './auth/grants/routes.ts'
import type { Identity } from './auth/identity.ts'
import { personalKeyRouteKeys, personalKeyRoutes } from './auth/personal/routes.ts'
import { wellKnownRouteKeys, wellKnownRoutes } from './auth/well-known-routes.ts'
import { metricsRouteKeys, metricsRoutes } from './metrics.ts'
import { probeRouteKeys, probeRoutes } from './boot/probes.ts'
import type { Setups } from './boot/setup.ts'
import { serverRouteKeys, serverRoutes } from './boot/server-routes.ts'
import { viewRouteKeys, viewRoutes } from './told/told.ts'
import type { PluginRecord } from './base/plugin-record.ts'
import type { Ground } from './ground.ts'
import type { Files } from './files/files.ts'
import { fileRouteKeys, fileRoutes } from './files/routes.ts'
import type { AppJobs } from './jobs/jobs.ts'
import { jobRouteKeys, jobRoutes } from './jobs/routes.ts'
import { keptRouteKeys, type KeptRoutesOptions, keptRoutes } from './kept/routes.ts'
import type { Notices } from './notices/notices.ts'
import { noticeRouteKeys, noticeRoutes } from './notices/routes.ts'
import { storageRouteKeys, storageRoutes } from './retention/routes.ts'
import type { OwnAddresses } from './own-addresses.ts'

const keys = [
  ...serverRouteKeys,
  ...probeRouteKeys,
  ...metricsRouteKeys,
  ...wellKnownRouteKeys,
  ...viewRouteKeys,
  ...delegationRouteKeys,
  ...personalKeyRouteKeys,
  ...grantRouteKeys,
  ...auditRouteKeys,
  ...jobRouteKeys,
  ...noticeRouteKeys,
  ...fileRouteKeys,
  ...keptRouteKeys,
  ...storageRouteKeys,
  ...conversationRouteKeys,
] as const

/**
 * The key of every route of the kernel, known before anything is opened: the boot plan reads the keys, and names a plugin
 * that claims one among its faults. A room that lists a key and has no route for it does not compile, and a
 * route whose key no room lists is not served.
 */
export const kernelRouteKeys: readonly string[] = keys

/** What the routes of the kernel answer from. */
export interface KernelRouteParts {
  readonly config: KernelEnv
  readonly records: readonly PluginRecord[]
  readonly ground: Ground
  readonly identity: Identity
  readonly grantable: Grantable
  readonly setups: Setups
  readonly jobs: AppJobs
  readonly notices: Notices
  readonly files: Files
  readonly conversations: Conversations
  readonly kept: KeptRoutesOptions
  readonly addresses: OwnAddresses
  /** The models that answer. */
  readonly models: { readonly default: Model }
  /** What plugins add to the document of the oracle. */
  facts(): Promise<Readonly<Record<string, unknown>>>
  openapi(): unknown
  /** Called when a user has revoked a delegation. */
  onRevoked(did: string): void
}

/** Every route of the kernel, in the order of its keys. */
export function kernelRoutes(parts: KernelRouteParts): [key: string, route: AnyRoute][] {
  const { config, records, identity, setups } = parts
  const { store, readiness, telemetry, backups } = parts.ground
  const routes: Record<(typeof keys)[number], AnyRoute> = {
    ...serverRoutes({
      environment: config.NODE_ENV,
      records,
      signingKeyLoaded: identity.signer !== undefined,
      databaseConnected: () => store.ping(),
      listening: () => store.listening(),
      bus: () => store.bus(),
      checkHealth: () => setups.checkHealth(),
      jobs: () => parts.jobs.health(),
      backups: () => backups?.state,
      openapi: () => parts.openapi(),
    }),
    ...probeRoutes(readiness),
    ...metricsRoutes(telemetry.registry),
    ...wellKnownRoutes({
      config,
      signer: identity.signer,
      oracleDid: identity.oracleDid,
      addresses: () => parts.addresses.told,
      models: parts.models,
      facts: () => parts.facts(),
    }),
    ...viewRoutes(records),
    ...delegationRoutes({
      auth: identity.auth,
      delegations: identity.delegations,
      oracleDid: identity.oracleDid,
      stored: identity.stored,
      onRevoked: (did) => parts.onRevoked(did),
    }),
    ...personalKeyRoutes(identity.personalKeys, (did) => parts.onRevoked(did)),
    ...grantRoutes(identity.grants, parts.grantable),
    ...auditRoutes(config.AUDIT_TABLE ? store.db : undefined),
    ...jobRoutes(parts.jobs),
    ...noticeRoutes({
      notices: parts.notices,
      plugins: records.map(({ name }) => name),
      isRevoked: (cids) => identity.isRevoked(cids),
    }),
    ...fileRoutes(parts.files),
    ...keptRoutes(parts.kept),
    ...storageRoutes(store),
    ...parts.conversations.routes,
  }
  return keys.map((key) => [key, routes[key]])
}
