import { onion, watchedLayer, type Layer } from '../base/onion.ts'
import { mayRepeat } from '../base/log.ts'
import { isOpen, type PluginRecord } from '../base/plugin-record.ts'
import { turnContext, type Turn, waitingTurn } from './turn/turn.ts'

/** A turn on its way through the onion; the innermost layer is the turn itself. */
interface TurnCalling {
  readonly turn: Turn
  readonly core: () => Promise<void>
}
/** A turn with the plugins' `turn` layers around it. */
export type TurnOnion = (calling: TurnCalling) => Promise<void>

/** Composes the plugins' `turn` layers. One composition serves all turns. */
export function composeTurn(records: readonly PluginRecord[]): TurnOnion {
  const layers = records
    .filter((record) => record.base && record.definition.middleware?.turn)
    .map((record): Layer<TurnCalling, void> => {
      const layer = record.definition.middleware!.turn!
      const calling: Layer<TurnCalling, void> = async ({ turn }, next) => {
        if (!isOpen(record)) return next()
        const ctx = turnContext(record, turn)
        let isPassed = false
        await layer(ctx, () => ((isPassed = true), next()))
        // The user reads what the layer itself has shown, and that may be nothing.
        if (!isPassed)
          ctx.log.warn(
            { [mayRepeat]: { of: record.name, whom: turn.user.did } },
            'middleware.turn ended a turn: it neither called next() nor threw an error',
          )
      }
      return watchedLayer(calling, ({ turn }) => waitingTurn(record, 'turn', turn))
    })
  return onion(layers, ({ core }) => core())
}
