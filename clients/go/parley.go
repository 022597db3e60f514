// Package parley is a client of the Parley dispatch protocol 1.0: it connects to a server, keeps a
// mirror of the queue and the nodes, and asks a dispatcher what to do.
//
// A dispatcher is one function:
//
//	end, err := parley.Serve(ctx, parley.DispatcherFunc(func(view *parley.View) error {
//		for job := range view.Queue.All() {
//			if !view.Start(job) {
//				break
//			}
//		}
//		return nil
//	}), parley.Options{Name: "first-come"})
package parley
