import { z } from 'zod'
import { checkTold } from '../../manifest/public/public.ts'
import type { RuntimeError } from '../../errors.ts'
import type { AnyRoute, HeaderSection, Log } from '../../plugin.ts'
import { isActive, isOpen, type PluginRecord } from '../base/plugin-record.ts'

/** How long the functions among the facts of plugins may take, each on its own. */
const factMs = 2_000

/** Faults of facts and views of an app's plugins, as far as they are known. */
export const checkToldBy = (records: readonly PluginRecord[]): RuntimeError[] =>
  checkTold(
    records.filter(isActive).map(({ name, facts, definition, web, base }) => {
      const isKnown = typeof definition.web !== 'function' || base !== undefined
      const { views } = definition
      return { name, facts, views, ...(isKnown && { mounts: Object.keys(web) }) }
    }),
  )

/** The headers of plugins that pages of other origins may send and read. */
export function headersOf(records: readonly PluginRecord[]): Required<HeaderSection> {
  const lists = records.filter(isActive).map(({ definition }) => definition.headers ?? {})
  return {
    allow: lists.flatMap(({ allow = [] }) => allow),
    expose: lists.flatMap(({ expose = [] }) => expose),
  }
}

/** What the plugins of an app add to the document of the oracle. A fact that is late or fails is left out. */
export async function factsOf(
  records: readonly PluginRecord[],
  log: Log,
): Promise<Record<string, unknown>> {
  const facts = records
    .filter((record) => isActive(record) && isOpen(record))
    .flatMap(({ name, facts = {} }) =>
      Object.entries(facts).map(([key, fact]) => ({ plugin: name, key, fact })),
    )
  const told = await Promise.all(
    facts.map(async ({ plugin, key, fact }) => {
      if (typeof fact !== 'function') return [key, fact] as const
      try {
        return [key, await inTime(async () => fact())] as const
      } catch (error) {
        log.warn({ err: error, plugin, fact: key }, 'A fact of a plugin could not be told')
        return [key, undefined] as const
      }
    }),
  )
  return Object.fromEntries(told)
}

async function inTime(ask: () => Promise<unknown>): Promise<unknown> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer within ${factMs} ms`)), factMs)
  })
  try {
    return await Promise.race([ask(), late])
  } finally {
    clearTimeout(timer)
  }
}

/** The keys of the routes by which a page learns what plugins bring to it. */
export const viewRouteKeys = ['GET /views'] as const

/** The routes by which a page learns what plugins bring to it. */
export const viewRoutes = (
  records: readonly PluginRecord[],
): Record<(typeof viewRouteKeys)[number], AnyRoute> => ({
  'GET /views': {
    auth: 'public',
    summary: 'The parts of the playground’s page that plugins bring, in their order.',
    output: z.object({ views: z.array(viewSchema) }),
    run: () => ({ views: viewsOf(records) }),
  },
})

const viewSchema = z.object({
  name: z.string(),
  plugin: z.string(),
  label: z.object({ en: z.string(), sw: z.string().optional(), fr: z.string().optional() }),
  module: z.string(),
  state: z.string(),
  reason: z.string().optional(),
  feature: z.literal('operator').optional(),
  within: z.enum(['answer', 'composer']).optional(),
})

const usualOrder = 100

/** The views of all plugins that are not switched off; those of an excluded plugin have the reason beside them. */
function viewsOf(records: readonly PluginRecord[]): z.input<typeof viewSchema>[] {
  return records
    .filter(({ state }) => state !== 'disabled')
    .flatMap(({ name: plugin, definition, state, reason }) =>
      Object.entries(definition.views ?? {}).map(
        ([name, { label, module, order, feature, within }]) => ({
          order: order ?? usualOrder,
          view: {
            name,
            plugin,
            label,
            module,
            state,
            ...(reason && { reason }),
            ...(feature && { feature }),
            ...(within && { within }),
          },
        }),
      ),
    )
    .toSorted((a, b) => a.order - b.order || (a.view.name < b.view.name ? -1 : 1))
    .map(({ view }) => view)
}
