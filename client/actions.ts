import type { ReactElement } from 'react'
import type { ToolSchema } from './schema.ts'

/** What a render function of an action is given. */
export interface AgActionRenderProps<Args = any> {
  readonly status?: 'isRunning' | 'done' | 'error'
  readonly args?: Args
  readonly result?: unknown
  readonly error?: string
  readonly isLoading?: boolean
}

export type AgActionRender<Args = any> = (props: AgActionRenderProps<Args>) => ReactElement | null

/** An action that the agent may invoke, as it is advertised. */
export interface AgAction {
  readonly name: string
  readonly description: string
  readonly parameters: ToolSchema
  readonly hasRender: boolean
  /** `read`: it only draws or looks, so nobody is asked before it, whatever the oracle has read. */
  readonly effect?: 'read' | 'write'
}

export interface RegisteredAction extends AgAction {
  readonly handler: (args: any) => unknown // any: what `parameters` says
  readonly render?: AgActionRender
}
