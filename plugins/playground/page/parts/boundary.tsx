import { Component, type ReactNode } from 'react'
import { Fault } from 'oracle-runtime-client/view'

/** Shows the error of a view that throws in place of that view; the other views continue to work. */
export class Boundary extends Component<{ children: ReactNode }, { error?: unknown }> {
  override state: { error?: unknown } = {}

  static getDerivedStateFromError(error: unknown) {
    return { error }
  }

  override render() {
    return this.state.error ? <Fault error={this.state.error} /> : this.props.children
  }
}
