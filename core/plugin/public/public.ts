import type { MaybePromise } from '../schema.ts'

/**
 * What a plugin adds to `/.well-known/oracle.json`, by key. The runtime calls a function among the values whenever somebody
 * reads the document; it has two seconds. A key whose value is undefined is left out.
 */
export type ToldFacts = Readonly<Record<string, unknown>>

/** A fact that is worked out when somebody asks. */
export type LateFact = () => MaybePromise<unknown>

/** Headers of the plugin's own that pages of other origins may send and read. */
export interface HeaderSection {
  /** Headers of requests. */
  readonly allow?: readonly string[]
  /** Headers of answers. */
  readonly expose?: readonly string[]
}

/** What a view is called, in the languages of the page. */
export interface ViewLabel {
  readonly en: string
  readonly sw?: string
  readonly fr?: string
}

/** A part of the playground's page that the plugin brings. */
export interface View {
  readonly label: ViewLabel
  /** The path of the ES module, below a web module of the plugin. Its default export shows the view in an element. */
  readonly module: `/${string}`
  /** Where the view stands among the others: 100 by default, the lowest first. */
  readonly order?: number
  /** `'operator'`: the page offers the view to operators alone. */
  readonly feature?: 'operator'
  /**
   * Where the page shows the view within a chat: below each of its newest answers, or beside the field for the next message.
   * Without it the view stands beside the chat.
   */
  readonly within?: ViewPlace
}

/** A place within a chat. */
export type ViewPlace = 'answer' | 'composer'

/** The section `views`, by the names that stand in the address of the page. */
export type ViewSection = Readonly<Record<string, View>>
