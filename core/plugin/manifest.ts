/** Who sees a plugin: every turn, a turn that has loaded the plugin, or no agent. */
export type Visibility = 'always' | 'on-demand' | 'silent'
/** How settled a plugin is. */
export type Stability = 'stable' | 'beta' | 'experimental'
/** What a plugin is about. */
export type Category =
  | 'core'
  | 'data'
  | 'communication'
  | 'automation'
  | 'memory'
  | 'integration'
  | 'ui'
  | 'auth'
  | 'observability'

/** Who a plugin is: readable without running anything. */
export interface Manifest<Name extends string = string> {
  /** Lower-case words joined by hyphens, unique in the app. */
  readonly name: Name
  /** Shown in the boot report. */
  readonly version?: string
  /** One sentence; the agent chooses by it. */
  readonly summary: string
  /** What users want when this plugin is the right one. */
  readonly whenToUse?: readonly string[]
  /** What sounds like this plugin and belongs to another. */
  readonly whenNotToUse?: readonly string[]
  /** What a user might say. */
  readonly examples?: readonly string[]
  /** Words to search by. */
  readonly tags?: readonly string[]
  /** `'always'`, `'on-demand'` (default), or `'silent'`: no agent sees the plugin. */
  readonly visibility?: Visibility
  /** How settled the plugin is: `'stable'`, `'beta'` or `'experimental'`. */
  readonly stability?: Stability
  /** What the plugin is about: `'data'`, `'communication'`, `'ui'` and so on. */
  readonly category?: Category
  /**
   * A right on the oracle's DID, such as `archive/open`: users to whom the operator has not granted it neither see the plugin
   * in a turn nor load it. Without it everybody who may talk to the agent does.
   */
  readonly can?: string
  /** `'off'` waits for a feature to turn the plugin on, `'development'` waits for one in production only. */
  readonly defaultState?: 'on' | 'off' | 'development'
}
