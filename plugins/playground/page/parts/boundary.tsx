import { Component, type ReactNode } from 'react'
import { Fault } from './fault.tsx'

/** A view that breaks says so in its place; the others go on. */
export class Boundary extends Component<{ children: ReactNode }, { error?: unknown }> {
  override state: { error?: unknown } = {}

  static getDerivedStateFromError(error: unknown) {
    return { error }
  }

  override render() {
    return this.state.error ? <Fault error={this.state.error} /> : this.props.children
  }
}
