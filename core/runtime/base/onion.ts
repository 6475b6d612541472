import type { Log } from '../../plugin.ts'
import { mayRepeat } from './log.ts'

/** One layer of an onion. It works before and after `next()`, which runs the layers inside it. */
export type Layer<Context, Result> = (ctx: Context, next: () => Promise<Result>) => Promise<Result>

/** Nests the layers around a core, outermost first. One onion serves any number of calls. */
export function onion<Context, Result>(
  layers: readonly Layer<Context, Result>[],
  core: (ctx: Context) => Promise<Result>,
): (ctx: Context) => Promise<Result> {
  return layers.reduceRight<(ctx: Context) => Promise<Result>>(
    // A layer in plain JavaScript may be no async function: what it returns or throws at once counts as well.
    (inner, layer) => async (ctx) => {
      let entered = false
      return layer(ctx, () => {
        if (entered) return Promise.reject(new Error('next() was called twice in one layer'))
        entered = true
        const result = inner(ctx)
        // A layer may not wait for `next()`. Its rejection would then be unhandled and end the process.
        result.catch(() => undefined)
        return result
      })
    },
    core,
  )
}

/** How long a layer may keep waiting what it stands around, before or after its `next()`, until the log says so. */
const patienceMs = 30_000

/** What the log says of a layer that keeps waiting what it stands around. */
export interface Waiting {
  readonly log: Log
  /** Such as `middleware.turn of weather`. */
  readonly layer: string
  /** What waits, such as `a turn`. */
  readonly what: string
  /** What else stands in the line. */
  readonly fields: object
}

/**
 * The same layer, and the log warns when it hangs: nothing else would say which plugin it is that keeps a request or a turn waiting.
 * The time within `next()` is not the layer's. `waiting` is asked when the time is over; undefined where nobody waits any more.
 */
export function watchedLayer<Context, Result>(
  layer: Layer<Context, Result>,
  waiting: (ctx: Context) => Waiting | undefined,
): Layer<Context, Result> {
  return async (ctx, next) => {
    let timer: NodeJS.Timeout | undefined
    let isOver = false
    const watch = (where: string) => {
      if (isOver) return
      timer = setTimeout(() => tell(waiting(ctx), where), patienceMs).unref()
    }
    watch('before its next()')
    try {
      return await layer(ctx, () => {
        clearTimeout(timer)
        const result = next()
        const goOn = () => watch('after its next()')
        result.then(goOn, goOn)
        return result
      })
    } finally {
      isOver = true
      clearTimeout(timer)
    }
  }
}

function tell(waiting: Waiting | undefined, where: string): void {
  if (!waiting) return
  const { log, layer, what, fields } = waiting
  const seconds = patienceMs / 1000
  log.warn(
    { ...fields, [mayRepeat]: { of: layer } },
    `${layer} has kept ${what} waiting for ${seconds} s ${where}`,
  )
}
