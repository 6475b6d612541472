import { useEffect } from 'react'
import type { AgActionRender } from '../core/page.ts'
import { useClient } from './provider.ts'
import { useLatest } from './use-latest.ts'
import type { OutputOf, ToolSchema } from '../core/tool-schema.ts'

/** An action as a component registers it. */
export interface AgActionConfig<Schema extends ToolSchema = ToolSchema> {
  readonly name: string
  readonly description: string
  readonly parameters: Schema
  readonly handler: (args: OutputOf<Schema>) => unknown
  /** `read`: the action only draws or looks, so the oracle asks nobody before it, whatever the oracle has read. */
  readonly effect?: 'read' | 'write'
  /** Shows the action in the conversation, from its start to its end. */
  readonly render?: AgActionRender<OutputOf<Schema>>
}

/** Registers an action that the agent may invoke while the component is mounted. */
export function useAgAction<Schema extends ToolSchema>(config: AgActionConfig<Schema>): void {
  const { actions } = useClient()
  const latest = useLatest(config)
  const { name } = config
  const hasRender = !!config.render
  useEffect(() => {
    const action = {
      name,
      hasRender,
      // Whether an action reads or writes does not change while it is registered: the oracle may have been told.
      effect: config.effect,
      get description() {
        return latest.current.description
      },
      get parameters() {
        return latest.current.parameters
      },
      handler: (args: OutputOf<Schema>) => latest.current.handler(args),
      ...(hasRender && {
        render: ((props) => latest.current.render?.(props) ?? null) as AgActionRender,
      }),
    }
    actions.set(name, action)
    return () => {
      // Another component may have registered an action of that name meanwhile.
      if (actions.get(name) === action) actions.delete(name)
    }
  }, [actions, name, hasRender])
}
