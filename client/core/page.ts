import type { ComponentType, ReactElement } from 'react'
import type { StreamingMode } from './records.ts'
import type { ToolSchema } from './tool-schema.ts'

/** What the render function of an action receives. */
export interface AgActionRenderProps<Args = any> {
  readonly status?: 'isRunning' | 'done' | 'error'
  readonly args?: Args
  readonly result?: unknown
  readonly error?: string
  readonly isLoading?: boolean
}

/** Draws an action in the conversation, from its start to its end. */
export type AgActionRender<Args = any> = (props: AgActionRenderProps<Args>) => ReactElement | null

/** An action of the page as the agent reads about it. */
export interface AgAction {
  readonly name: string
  readonly description: string
  readonly parameters: ToolSchema
  readonly hasRender: boolean
  /** `read`: the action only draws or looks, so the oracle asks nobody before it, whatever the oracle has read. */
  readonly effect?: 'read' | 'write'
}

/** An action together with the functions of the page that carry it out and draw it. */
export interface RegisteredAction extends AgAction {
  readonly handler: (args: any) => unknown // any: what `parameters` says
  readonly render?: AgActionRender
}

/** A tool that runs in the page. */
export interface IBrowserToolParams {
  readonly toolName: string
  readonly description: string
  readonly schema: ToolSchema
  readonly fn: (args: any) => unknown // any: what the schema beside it says
}

/** The tools of a page, by any names; the agent calls each by its `toolName`. */
export type IBrowserTools = Readonly<Record<string, IBrowserToolParams>>

/** Components by the name that the agent renders, or by the tool's name. */
export type UIComponents = Readonly<Record<string, ComponentType<any>>> // any: each has props of its own

/** What a component that shows a chat lends the chat; the chat reads each thing when it needs the thing, and keeps none. */
export interface ChatUse {
  readonly browserTools?: IBrowserTools
  readonly uiComponents?: UIComponents
  readonly streamingMode?: StreamingMode
  readonly onPaymentRequiredError?: (claimIds: string[]) => void
}
