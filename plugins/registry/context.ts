import type { z } from 'zod'
import type { RouteContext, User } from '#core'
import type { PeerDoor } from './query/peers.ts'
import type { Registry } from './registry.ts'

/** What `setup` made. The first request loads the registry, so that a server starts sooner. */
export interface Self extends PeerDoor {
  readonly oracleDid: string
  registry(): Promise<Registry>
}

/** What a route of the registry sees. */
export interface RegistryRouteContext extends Pick<
  RouteContext,
  'caller' | 'koa' | 'lines' | 'signal' | 'raw'
> {
  readonly self: Self
  readonly user: User | undefined
}

/** What a tool of the registry sees. */
export interface RegistryToolContext {
  readonly self: Self
  readonly user: User
  readonly signal: AbortSignal
  /** The plugin that started the turn. */
  readonly origin: string | undefined
}

/** A route of the registry, whose handler has the input that its schema makes. */
export interface RegistryRoute<Input extends z.ZodType, Auth extends 'bearer' | 'public'> {
  readonly auth: Auth
  readonly summary: string
  readonly answers?: Readonly<Record<number, readonly string[]>>
  readonly input: Input
  readonly body?: 'ndjson'
  /** Whether the handler looks at the bytes of the body. */
  readonly raw?: true
  readonly can?: { readonly can: string }
  own?(ctx: RegistryRouteContext): Promise<boolean>
  run(input: z.output<Input>, ctx: RegistryRouteContext): unknown
}

/** A route in a file of its own; its handler's types follow from its schema. */
export const route = <Input extends z.ZodType, Auth extends 'bearer' | 'public'>(
  definition: RegistryRoute<Input, Auth>,
): RegistryRoute<Input, Auth> => definition

/** A tool of the registry, whose handler has the input that its schema makes. */
export interface RegistryTool<Input extends z.ZodType> {
  readonly description: string
  readonly input: Input
  readonly effect?: 'read' | 'write'
  readonly foreign?: boolean
  readonly can?: { readonly can: string; with(input: unknown, ctx: RegistryToolContext): string }
  run(input: z.output<Input>, ctx: RegistryToolContext): Promise<unknown>
}

/** A tool in a file of its own; its handler's types follow from its schema. */
export const tool = <Input extends z.ZodType>(
  definition: RegistryTool<Input>,
): RegistryTool<Input> => definition

/** Whether the caller sees anything in the registry: with a grant everything, without a grant only what is the caller's own. */
export const seesAny = async (ctx: RegistryRouteContext): Promise<boolean> =>
  (await ctx.self.registry()).readers.hasAny(ctx)
